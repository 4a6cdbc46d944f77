"""The built modules: complete, valid, and made from the sources that are here."""

import subprocess
import sys
from pathlib import Path

import pytest

from spvk import shaders

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "shaders"))
import build  # noqa: E402  (the build script is not part of the package)


def test_manifest_matches_the_sources():
    assert build.build(check=True) == []


def test_a_changed_source_is_stale(tmp_path, monkeypatch):
    copy = tmp_path / "shaders"
    subprocess.check_call(["cp", "-r", str(ROOT / "shaders"), str(copy)])
    monkeypatch.setattr(build, "HERE", copy)
    with open(copy / "top_k.comp", "a") as f:
        f.write("// changed\n")
    assert build.build(check=True) == ["top_k"]
    with open(copy / "include" / "common.glsl", "a") as f:
        f.write("// changed too\n")
    assert sorted(build.build(check=True)) == sorted(shaders.catalogue())


def test_every_module_of_the_catalogue_is_built():
    assert sorted(shaders.manifest()) == sorted(shaders.catalogue())


def test_every_module_passes_spirv_val():
    files = [str(shaders.SPIRV_DIR / f"{name}.spv") for name in shaders.manifest()]
    for f in files:
        subprocess.check_call(
            [build.tool("spirv-val"), "--target-env", "vulkan1.2", "--scalar-block-layout", f]
        )


def test_push_constants_agree_with_the_compiled_modules():
    """Member names and offsets in each SPIR-V module are those of the manifest."""
    for name, module in shaders.manifest().items():
        text = subprocess.run(
            [build.tool("spirv-dis"), "--raw-id", str(shaders.SPIRV_DIR / f"{name}.spv")],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        block = next(
            line.split()[1]
            for line in text.splitlines()
            if line.strip().startswith("OpName") and '"Push"' in line
        )
        names, offsets = {}, {}
        for line in text.splitlines():
            words = line.split()
            if words[:2] == ["OpMemberName", block]:
                names[int(words[2])] = words[3].strip('"')
            if words[:2] == ["OpMemberDecorate", block] and words[3] == "Offset":
                offsets[int(words[2])] = int(words[4])
        assert [(names[i], offsets[i]) for i in sorted(names)] == [(f.name, f.offset) for f in module.push], (
            name
        )


def test_push_constants_stay_within_what_vulkan_guarantees():
    assert max(m.push_bytes for m in shaders.manifest().values()) <= 128


def test_pack_names_missing_arguments():
    with pytest.raises(KeyError, match="rms_norm: arguments"):
        shaders.manifest()["rms_norm"].pack({"x": 0})


def test_pack_places_values():
    fields = (
        shaders.Field("x", "address", "r", 0),
        shaders.Field("n", "uint", "", 8),
        shaders.Field("eps", "float", "", 12),
    )
    assert (
        shaders.Module("m", "", fields, {}).pack(dict(eps=0.5, n=5, x=1)).hex() == "0100000000000000"
        "05000000"
        "0000003f"
    )
