"""Files that stand where weights should be: each is refused by what it is, by its name, with what to do."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import pytest

import elmokit
from elmokit import UnknownFormat, WeightsError


def a_zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model/data.pkl", b"")
    return file.getvalue()


NOT_WEIGHTS = {
    "empty": (b"", "the file is empty"),
    "text": (b"the weights are on the other disk\n", "a text"),
    "lfs pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 37\n",
        "a Git LFS pointer",
    ),
    "html": (b"<!DOCTYPE html><html>404</html>", "a web page"),
    "html after blank lines": (b"\r\n\n  <html>404</html>", "a web page"),
    "json": (b'{"lstm": {"dim": 4096}}', "a JSON file"),
    "zip": (a_zip(), "a zip archive"),
    "gzip": (b"\x1f\x8b\x08\x00" + bytes(40), "a gzip archive"),
    **{f"pickle {p}": (pickle.dumps([1.0] * 40, protocol=p), "a Python pickle") for p in (2, 3, 4, 5)},
    "noise": (bytes(range(256)) * 4, "not a weights file of a known format"),
    "hdf5 cut in its first bytes": (b"\x89HDF\r\n", "a damaged HDF5 file"),
    "hdf5 signature alone": (b"\x89HDF\r\n\x1a\n", "damaged or cut off"),
}
every_content = pytest.mark.parametrize(("content", "what"), NOT_WEIGHTS.values(), ids=list(NOT_WEIGHTS))


@every_content
@pytest.mark.parametrize("by", ["file", "folder", "pair"])
def test_it_is_refused_by_what_it_is(content: bytes, what: str, by: str, tmp_path: Path) -> None:
    """Also where the folder is named: "no model here" would leave the user to find the broken file."""
    weights, options = tmp_path / "weights.hdf5", tmp_path / "options.json"
    weights.write_bytes(content)
    options.write_text("{}")
    source = {"file": weights, "folder": tmp_path, "pair": (options, weights)}[by]
    with pytest.raises(WeightsError) as caught:
        elmokit.read_weights(source)
    assert str(weights) in caught.value.message and what in caught.value.message
    assert caught.value.hint


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "it ran",)

    for name in ("weights.pt", "weights.hdf5"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(UnknownFormat, match="pickle"):
            elmokit.read_weights(tmp_path / name)
    assert not (tmp_path / "it ran").exists()


def test_safetensors_of_another_program_are_not_taken_for_a_model(tmp_path: Path) -> None:
    from safetensors.torch import save_file
    from torch import zeros

    save_file({"x": zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(UnknownFormat, match=r"without elmokit's config\.json"):
        elmokit.read_weights(tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UnknownFormat, match=r"no model in this folder: found config\.json, model\.safetensors"):
        elmokit.read_weights(tmp_path)


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match="no model in this folder: it is empty"):
        elmokit.read_weights(tmp_path)


def test_a_missing_path_is_answered_with_the_bundled_names(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"did you mean 'random-tiny'\?") as caught:
        elmokit.read_weights("random-tinny")
    assert "random-tiny" in caught.value.hint
    with pytest.raises(WeightsError, match="no such file"):
        elmokit.read_weights(tmp_path / "nowhere.hdf5")


def test_a_text_is_no_path() -> None:
    """What happens when somebody hands the sentences to load: the operating system refuses so long a name."""
    with pytest.raises(WeightsError, match="The river bank flooded"):
        elmokit.read_weights("The river bank flooded. " * 300)


def test_a_device_is_no_file() -> None:
    if not Path("/dev/null").is_char_device():
        pytest.skip("no /dev/null on this system")
    with pytest.raises(UnknownFormat, match="neither a file nor a folder"):
        elmokit.read_weights("/dev/null")
