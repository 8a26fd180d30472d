"""Our own format: a folder of `config.json` and `model.safetensors`, with `softmax.safetensors` and `vocab.txt` if any.

`config.json` holds the shape, the origin, and a checksum for each file, which is compared on every reading. It is
written last, so that a folder whose writing was cut off never passes for a model.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import ChecksumMismatch, UnknownFormat, WeightsError, all_at_once
from ...files import beside, sha256
from ...model.config import BiLMConfig
from ...settings import from_plain, to_plain
from ...text.vocabulary import Vocabulary
from ..bundle import SOFTMAX, Provenance, WeightBundle, check_finite, check_shapes, expected_shapes
from ..json_file import read_object
from ..tensor_file import save_tensors

CONFIG, MODEL, SOFTMAX_FILE, VOCABULARY = "config.json", "model.safetensors", "softmax.safetensors", "vocab.txt"
RUN_BEST = "best"
"""Where a run folder keeps its best model."""
VERSION = 1
MAX_CONFIG_BYTES = 16 << 20

_HINT = "copy or convert the model again"


class Native:
    """A folder; either of its main files names it as well."""

    def weights_file(self, source: Path) -> Path | None:
        folder = source if source.is_dir() else source.parent
        if not (folder / CONFIG).is_file() and source.is_dir():
            folder = folder / RUN_BEST
        if source.is_file() and source.name not in (CONFIG, MODEL):
            return None
        return folder / MODEL if _is_ours(folder) else None

    def read(self, weights: Path, *, options: Path | None, softmax: bool, checksum: bool) -> WeightBundle:
        folder = weights.parent
        if options is not None:
            raise WeightsError(f"{folder}: a native model needs no options", hint=f"give the folder alone: {folder}")
        described = _config(folder / CONFIG)
        files = _checked_files(folder, described, softmax=softmax)
        config = from_plain(BiLMConfig, described.get("bilm", {}), where=f"{folder / CONFIG}: bilm")
        tensors = {name: t for path in files if path.suffix == ".safetensors" for name, t in _tensors(path).items()}
        vocabulary = Vocabulary.read(folder / VOCABULARY) if folder / VOCABULARY in files else None
        stored = from_plain(Provenance, described.get("provenance", {}), where=f"{folder / CONFIG}: provenance")
        if not softmax:
            config = dataclasses.replace(config, softmax=None)
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        check_shapes(found, expected_shapes(config, where=str(folder)), where=str(folder), hint=_HINT, exactly=True)
        _check_types(tensors, str(folder))
        check_finite(tensors.items(), where=str(folder))
        return WeightBundle(
            config=config,
            tensors=tensors,
            provenance=_provenance(stored, folder, described["files"][MODEL]),
            vocabulary=vocabulary,
        )

    def target_files(self, bundle: WeightBundle, target: Path) -> list[Path]:
        names = [MODEL]
        if any(name.startswith(SOFTMAX) for name in bundle.tensors):
            names.append(SOFTMAX_FILE)
        if bundle.vocabulary is not None:
            names.append(VOCABULARY)
        return [target / name for name in (*names, CONFIG)]

    def write(self, bundle: WeightBundle, target: Path) -> list[Path]:
        target.mkdir(parents=True, exist_ok=True)
        softmax = {name: t for name, t in bundle.tensors.items() if name.startswith(SOFTMAX)}
        files = [_save(bundle.without_softmax().tensors, target / MODEL)]
        if softmax:
            files.append(_save(softmax, target / SOFTMAX_FILE))
        if bundle.vocabulary is not None:
            with beside(target / VOCABULARY) as temporary:
                bundle.vocabulary.write(temporary)
            files.append(target / VOCABULARY)
        described = {
            "model_type": "elmo",
            "format": "elmokit",
            "format_version": VERSION,
            "bilm": to_plain(bundle.config),
            "provenance": bundle.provenance.converted_from or to_plain(bundle.provenance),
            "files": {path.name: sha256(path) for path in files},
        }
        with beside(target / CONFIG) as temporary:
            text = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
            # What UTF-8 cannot hold (half a surrogate pair) becomes \udc80, which is JSON's own way to write it.
            temporary.write_bytes(text.encode("utf-8", "backslashreplace"))
        return [*files, target / CONFIG]


NATIVE = Native()


def _provenance(stored: Provenance, folder: Path, checksum: str) -> Provenance:
    """Of these files; of those that they were made from, if they were."""
    converted = {} if stored.format == "native" else to_plain(stored)
    return dataclasses.replace(
        stored, format="native", source=folder.name, sha256=checksum, options="", converted_from=converted
    )


def _is_ours(folder: Path) -> bool:
    """Many programs call a file config.json: one that is not even ours to read matters only beside our weights."""
    if not (folder / CONFIG).is_file():
        return False
    try:
        return _config(folder / CONFIG).get("format") == "elmokit"
    except WeightsError:
        if (folder / MODEL).is_file():
            raise
        return False


def _check_types(tensors: Mapping[str, Tensor], where: str) -> None:
    others = {name: tensor.dtype for name, tensor in tensors.items() if tensor.dtype != torch.float32}
    if others:
        problems = [f"{name} holds {dtype}, expected {torch.float32}" for name, dtype in others.items()]
        raise WeightsError(all_at_once(problems, where), hint=_HINT)


def _config(path: Path) -> dict[str, Any]:
    return read_object(path, max_bytes=MAX_CONFIG_BYTES, hint=_HINT)


def _checked_files(folder: Path, described: Mapping[str, Any], *, softmax: bool) -> list[Path]:
    """The files of this model, each as it was written."""
    version, files = described.get("format_version"), described.get("files")
    if version != VERSION:
        raise UnknownFormat(
            f"{folder / CONFIG}: format_version is {version!r:.40}, this elmokit reads {VERSION}",
            hint="pip install --upgrade elmokit",
        )
    if not isinstance(files, dict) or MODEL not in files or not set(files) <= {MODEL, SOFTMAX_FILE, VOCABULARY}:
        raise WeightsError(f"{folder / CONFIG}: files is {files!r:.80}, expected their checksums", hint="convert again")
    wanted = [folder / name for name in files if softmax or name != SOFTMAX_FILE]
    missing = [path.name for path in wanted if not path.is_file()]
    if missing:
        raise WeightsError(f"{folder}: {', '.join(missing)} missing", hint=_HINT)
    wrong = [f"{path.name} is not the file that was written" for path in wanted if sha256(path) != files[path.name]]
    if wrong:
        raise ChecksumMismatch(all_at_once(wrong, str(folder)), hint=_HINT)
    return wanted


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, ValueError, KeyError) as error:
        raise WeightsError(f"{path}: damaged: {str(error)[:120]}", hint=_HINT) from error


def _save(tensors: Mapping[str, Tensor], path: Path) -> Path:
    with beside(path) as temporary:
        save_tensors({name: tensor.float() for name, tensor in tensors.items()}, temporary)
    return path
