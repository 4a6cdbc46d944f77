"""Accuracy against honest baselines: prompts x policies x keep fractions, with intervals, behind `spvk eval`.

prompts (JSONL) or generate (tasks) -> trial (scores shared, baselines, metrics: one record each), run by run
-> table (cells, JSON, Markdown).
"""
