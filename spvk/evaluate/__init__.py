"""Accuracy against honest baselines: prompts x policies x keep fractions, with intervals, behind `spvk eval`.

prompts (JSONL) -> run (scores shared, baselines, metrics: one record each) -> table (cells, JSON, Markdown).
"""
