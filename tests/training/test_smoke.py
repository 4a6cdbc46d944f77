"""Training end to end, needs torch (the group `train`): `make test-training`."""

import csv
from pathlib import Path

import numpy as np
import pytest

from conftest import assert_close
from spvk import embedded, engine
from spvk.model import Model

pytestmark = pytest.mark.training


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    from training import train

    out = tmp_path_factory.mktemp("training")
    arguments = f"--name smoke --size smoke --out {out} --tokens 1536 --save-every 30 --muon 0.02"
    train.main(f"{arguments} --steps 60".split())
    return out, arguments


def curve(out, column):
    with (out / "smoke.csv").open() as file:
        return [float(row[column]) for row in csv.DictReader(file)]


def test_the_loss_falls(trained):
    loss = curve(trained[0], "answer_loss")
    assert len(loss) == 3 and loss[0] > loss[1] > loss[2] and loss[2] < 0.75 * loss[0]


def test_the_exported_file_gives_the_same_logits(trained, device):
    import torch

    from training import export

    out, _ = trained
    for weights, budget in (("f32", 1e-6), ("q4km", 0.05)):
        export.main([str(out / "smoke.pt"), str(out / "smoke.gguf"), "--weights", weights])
        model, _ = export.load(out / "smoke.pt")
        tokens = np.random.default_rng(0).integers(0, len(model.embedding), 133)
        with torch.no_grad():
            want = model.logits(model(torch.from_numpy(tokens)[None])[:, -1])[0].numpy()
        with Model(device, out / "smoke.gguf") as opened:
            assert_close(engine.dump(opened, tokens)["logits"][0], want, budget, weights)
            assert opened.tokenizer.decode(opened.tokenizer.encode("Zażółć 🦜")) == "Zażółć 🦜"


def test_a_file_gives_its_weights_and_vocabulary_back(trained, tmp_path):
    from training import export, tokenizer
    from training.weights import state_of

    checkpoint, file = trained[0] / "smoke.pt", tmp_path / "smoke.gguf"
    export.main([str(checkpoint), str(file), "--weights", "f32"])
    want, got = state_of(checkpoint), state_of(file)
    assert want.keys() == got.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=1e-6 if name.endswith("a_log") else 0)
    assert tokenizer.load(file) == tokenizer.load(trained[0] / "vocabulary.json")


@pytest.mark.parametrize(
    "options, words",
    [
        (
            "--size draft --grow-from {target}",
            "target.gguf: found 8 layers of other sizes, expected at most 4 layers",
        ),
        ("--size smoke --grow-from {target}", "target.gguf: its vocabulary differs from"),
        (
            "--size draft --grow-from none.gguf",
            "none.gguf: No such file or directory, expected a checkpoint or a GGUF",
        ),
        (
            "--size draft --grow-from {here}",
            "test_smoke.py: found something else, expected a checkpoint or a GGUF file",
        ),
        ("--size smoke --resume", "x.pt: no checkpoint, expected one to --resume from"),
        ("--size smoke --stage 99", "--stage: found 99, expected 0 to 7"),
    ],
)
def test_what_cannot_be_gone_on_from_is_named(trained, tmp_path, capsys, options, words):
    from training import tokenizer, train

    known = embedded.TARGET if "draft" in options else trained[0] / "vocabulary.json"
    tokenizer.save(tokenizer.load(Path(known)), tmp_path / "vocabulary.json")
    given = options.format(target=embedded.TARGET, here=__file__)
    with pytest.raises(SystemExit) as stopped:
        train.main(f"--name x --out {tmp_path} --steps 1 {given}".split())
    err = capsys.readouterr().err
    assert stopped.value.code == 2 and words in err and err.count("\n") == 1


def test_a_resumed_run_ends_where_an_unbroken_one_does(trained, tmp_path):
    import torch

    from training import train

    out, arguments = trained
    whole = torch.load(out / "smoke.pt", weights_only=False)["model"]
    run = train.Run(
        train.parser().parse_args(f"{arguments} --steps 60".replace(str(out), str(tmp_path)).split())
    )
    for _ in range(30):
        run.train_step()
    run.save()
    train.main(f"{arguments} --steps 60 --resume".replace(str(out), str(tmp_path)).split())
    again = torch.load(tmp_path / "smoke.pt", weights_only=False)["model"]
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    assert curve(tmp_path, "step") == [40, 60]  # from step 30 on
