"""One pretraining run, from text to `best/`: prepare, probe, train, evaluate, and stop or go on.

Steps, evaluations and checkpoints count steps, not seconds, so that a run on the CPU that was killed and started again
ends with the very weights of one that was not. A time budget alone counts seconds, over all resumes.
"""

from __future__ import annotations

import dataclasses
import json
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import torch

from ..embed.embedder import choose_device
from ..embed.language_model import Perplexity, perplexity
from ..errors import RunError, WeightsError
from ..kernels.engine import Engine
from ..model.bilm import BiLM
from ..runs import Run
from ..settings import to_plain
from ..weights.bundle import Provenance, WeightBundle
from ..weights.load import write_weights
from .batches import Batches
from .board import Board
from .card import write_card
from .loop import Diverged, Progress, Trainer
from .memory import memory_in_use, refuse_what_does_not_fit, within_memory
from .objective import Objective
from .parallel import agreed, first_goes_first, local_rank, process_group, rank, wait_for_all, world
from .preparation import complete_config, prepare, refuse_other_settings
from .settings import PretrainSettings
from .start import first_weights

MAX_ROLLBACKS = 3
BEFORE = "before.json"
PROBE_STEPS = 10


class Watch(Protocol):
    """Who looks on: the command line's progress bar, or nobody."""

    def say(self, message: str) -> None: ...
    def stepped(self, progress: Progress, loss: float, left: float) -> None: ...
    def evaluated(self, progress: Progress, found: Perplexity) -> None: ...


class Nobody:
    """Looks away."""

    def say(self, message: str) -> None:
        pass

    def stepped(self, progress: Progress, loss: float, left: float) -> None:
        pass

    def evaluated(self, progress: Progress, found: Perplexity) -> None:
        pass


def pretrain(settings: PretrainSettings, folder: str | Path, *, watch: Watch | None = None) -> dict[str, Any]:
    """Train as `settings` say, or go on where this folder's run stopped. Returns what result.json holds."""
    started = time.perf_counter()
    watch = watch or Nobody()
    run = Run(Path(folder))
    device = choose_device(settings.device, index=local_rank())
    with process_group(device):
        watch = watch if rank() == 0 else Nobody()
        finished = run.result()
        if finished is not None:
            refuse_other_settings(run, settings)
            watch.say(
                f"{run.folder} is finished: perplexity {finished['perplexity']:.1f} after {finished['step']:,} steps"
            )
            return finished
        with run.locked() if rank() == 0 else nullcontext():
            return _Session(settings, run, device=device, watch=watch, started=started).result()


class _Session:
    """One start of a run, until it ends or is stopped."""

    def __init__(
        self, settings: PretrainSettings, run: Run, *, device: torch.device, watch: Watch, started: float
    ) -> None:
        self.settings, self.run, self.watch, self.started = settings, run, watch, started
        with first_goes_first():
            self.texts = prepare(settings, run, watch.say)
        config = complete_config(settings, self.texts.train)
        refuse_what_does_not_fit(config, device)
        torch.manual_seed(settings.seed)
        bilm, frozen_share = first_weights(config, settings.start, self.texts.train.vocabulary)
        batches = Batches(
            self.texts.train,
            config,
            rows=settings.batch.rows,
            steps=settings.batch.steps,
            block_tokens=settings.batch.block_tokens,
            seed=settings.seed,
            rank=rank(),
            world=world(),
        )
        objective = Objective(bilm.to(device), settings.objective)
        self.trainer = Trainer(objective, batches, settings, device=device, frozen_share=frozen_share)
        self.sample = self.texts.sentences(settings.schedule.valid_tokens)
        self.reserve = 0.02 * 60 * (settings.schedule.minutes or 0)
        self.board = Board(self.run.folder / "tensorboard") if settings.tensorboard and rank() == 0 else None
        self.seconds_before = 0.0
        # A CPU is never ahead of what it is asked.
        self.look_every = 1 if device.type == "cpu" else max(1, settings.schedule.evaluate_every // 20)
        self.log_every = max(1, settings.schedule.evaluate_every // 20)
        self.loss = math.nan
        self._go_on()
        self.seconds_before = self.trainer.progress.seconds if self.resumed else 0.0

    def result(self) -> dict[str, Any]:
        words_per_second = self._probe()
        self.watch.say(self._plan(words_per_second))
        try:
            self._train()
        finally:
            self.trainer.stop_reading()
        return self._finish()

    def _train(self) -> None:
        with stop_on_interrupt() as stopping:
            while not self._is_done():
                share = self._step()
                done = self.trainer.progress.step
                due = done % self.settings.schedule.evaluate_every == 0
                if (due or stopping.is_set() or done % self.look_every == 0) and not self._settle():
                    continue
                seconds = self._seconds()
                self.watch.stepped(self.trainer.progress, self.loss, left=max(0.0, seconds / share - seconds))
                if due and not self._evaluate_and_save():
                    continue
                if stopping.is_set():
                    if not due:
                        self._save()
                    self.watch.say(f"stopped after step {done:,}; the same command goes on from there")
                    raise KeyboardInterrupt

    def _is_done(self) -> bool:
        """Whether the run is over, all went well, and its end has been evaluated."""
        if not (self._is_over() and self._settle()):
            return False
        progress = self.trainer.progress
        evaluated = progress.step % self.settings.schedule.evaluate_every == 0 and progress.best is not None
        return evaluated or self._evaluate_and_save()

    def _go_on(self) -> None:
        """From the last whole checkpoint, or from the first step, which is a checkpoint too."""
        latest = self.run.latest(say=self.watch.say)
        wait_for_all()  # before the first process writes one
        self.resumed = latest is not None
        if latest is None:
            self._save()
            return
        self._restore(latest)
        self.watch.say(f"going on after step {self.trainer.progress.step:,}")

    def _restore(self, checkpoint: Path) -> None:
        """What came after the checkpoint did not happen."""
        self.trainer.restore(checkpoint)
        if rank() == 0:
            self.run.forget_after(self.trainer.progress.step)

    def _probe(self) -> float:
        with within_memory(self.trainer):
            return self.trainer.probe(PROBE_STEPS)

    def _plan(self, words_per_second: float) -> str:
        bilm, schedule, train = self.trainer.objective.bilm, self.settings.schedule, self.texts.train
        epoch_minutes = self.trainer.batches.tokens_per_epoch / words_per_second / 60
        if schedule.minutes is not None:
            length = f"{schedule.minutes:g} minutes, about {schedule.minutes / epoch_minutes:.1f} epochs"
        elif schedule.steps is not None:
            n_words = schedule.steps * self.trainer.batches.rows * self.settings.batch.steps
            length = f"{schedule.steps:,} steps, about {n_words / words_per_second / 60:.1f} minutes"
        else:
            length = f"{schedule.epochs:g} epochs, about {(schedule.epochs or 0) * epoch_minutes:.1f} minutes"
        return (
            f"{bilm.n_parameters() / 1e6:.1f} M parameters · {train.n_tokens:,} tokens, {train.n_words:,} words "
            f"({train.oov_share:.1%} unknown) · {self.trainer.objective.softmax} softmax · {self.trainer.device} "
            f"{self.trainer.precision} · {memory_in_use(self.trainer.device) / 1e9:.1f} GB · "
            f"{words_per_second:,.0f} words/s · {length}"
        )

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.started

    def _share(self) -> float:
        """How much of the run is over, counting the step to come."""
        schedule, progress = self.settings.schedule, self.trainer.progress
        shares = [0.0]
        if schedule.steps is not None:
            shares.append((progress.step + 1) / schedule.steps)
        if schedule.epochs is not None:
            shares.append((progress.words + 1) / (schedule.epochs * self.trainer.batches.tokens_per_epoch))
        if schedule.minutes is not None:
            shares.append(self._seconds() / max(1.0, 60 * schedule.minutes - self.reserve))
        return agreed(max(shares))

    def _is_over(self) -> bool:
        schedule, progress = self.settings.schedule, self.trainer.progress
        if schedule.patience is not None and progress.worse >= schedule.patience:
            return True
        if schedule.steps is not None and progress.step >= schedule.steps:
            return True
        if schedule.epochs is not None and progress.words >= schedule.epochs * self.trainer.batches.tokens_per_epoch:
            return True
        return schedule.minutes is not None and self._share() >= 1

    def _step(self) -> float:
        """One step; returns how much of the run is over behind it."""
        share = self._share()
        if self.settings.start.model is not None and not self.trainer.progress.unfrozen:
            self._unfreeze(share)
        self.trainer.step(share)
        return share

    def _settle(self) -> bool:
        """Whether all steps so far went well; if one did not, the run goes back to its last checkpoint."""
        try:
            loss = self.trainer.settle()
        except Diverged as error:
            self._roll_back(error)
            return False
        if loss is not None:
            self.loss = loss
            progress, seconds = self.trainer.progress, self._seconds()
            if progress.step % self.log_every == 0:
                event = {"event": "train", "step": progress.step, "loss": loss, "words": progress.words}
                self._log({**event, "seconds": seconds})
        return True

    def _log(self, event: dict[str, Any]) -> None:
        if rank() == 0:
            self.run.log(event)
            if self.board is not None:
                self.board.add(event)

    def _unfreeze(self, share: float) -> None:
        """Measure the model that is adapted, as soon as it has a softmax that knows its words."""
        mapped = self.trainer.frozen_share == self.settings.start.frozen_share
        if mapped or share >= self.trainer.frozen_share:
            if rank() == 0 and not (self.run.folder / BEFORE).is_file():
                self.run.write_json(BEFORE, self._measured(self.trainer.objective.bilm))
            self.trainer.progress = dataclasses.replace(self.trainer.progress, unfrozen=True)

    def _measured(self, bilm: BiLM) -> dict[str, Any]:
        """Perplexity on the validation text, and on the general one if there is one."""
        n_tokens = self.settings.schedule.last_valid_tokens
        found = {"domain": to_plain(evaluate(bilm, self.texts.sentences(n_tokens)))}
        if self.texts.general is not None:
            found["general"] = to_plain(evaluate(bilm, self.texts.sentences(n_tokens, general=True)))
        return found

    def _roll_back(self, error: Exception) -> None:
        rollbacks = self.trainer.progress.rollbacks + 1
        latest = self.run.latest(say=self.watch.say)
        if rollbacks > MAX_ROLLBACKS or latest is None:
            raise RunError(f"{self.run.folder}: {error}, {rollbacks} times", hint="--set optimizer.learning_rate=...")
        self.trainer.optimizer.zero_grad(set_to_none=True)
        self._restore(latest)
        self.trainer.progress = dataclasses.replace(self.trainer.progress, rollbacks=rollbacks)
        self.watch.say(f"{error}: back to step {self.trainer.progress.step:,} at half the rate")

    def _evaluate_and_save(self) -> bool:
        """Whether what was found is a language model's; if not, the run goes back to its last checkpoint.

        A step's loss says how the weights were before it: an update that ruins them is first seen here.
        """
        started = time.perf_counter()
        try:
            found = evaluate(self.trainer.objective.bilm, self.sample)
            refuse_what_is_no_perplexity(found, n_words=self.texts.train.n_words)
        except (Diverged, WeightsError) as error:
            self._roll_back(error)
            return False
        seconds = time.perf_counter() - started
        progress = self.trainer.progress
        better = progress.best is None or found.perplexity < progress.best
        self.trainer.progress = dataclasses.replace(
            progress,
            best=found.perplexity if better else progress.best,
            best_step=progress.step if better else progress.best_step,
            worse=0 if better else progress.worse + 1,
        )
        self.watch.evaluated(self.trainer.progress, found)
        self._log({"event": "valid", "step": progress.step, "seconds": self._seconds(), **to_plain(found)})
        if better and rank() == 0:
            self._write_model("best")
        self._save()
        self.reserve = self._time_to_finish(seconds / found.tokens, saving=time.perf_counter() - started - seconds)
        return True

    def _time_to_finish(self, seconds_per_token: float, *, saving: float) -> float:
        """For the last evaluations, of the sample and of all, and for writing: kept back from a time budget."""
        texts = (self.texts.valid, self.texts.general)
        most = self.settings.schedule.last_valid_tokens or sys.maxsize
        n_tokens = sum(min(most, text.n_tokens) + text.n_sentences for text in texts if text is not None)
        n_sample = sum(map(len, self.sample)) + len(self.sample)
        return 1.1 * seconds_per_token * (n_tokens + n_sample) + 3 * saving

    def _save(self) -> None:
        self.trainer.progress = dataclasses.replace(self.trainer.progress, seconds=self._seconds())
        self.trainer.gather()
        if rank() == 0:
            self.run.save(self.trainer.progress.step, self.trainer.save)

    def _finish(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if rank() == 0:
            self._write_model("last")
            from ..weights.load import load_bilm

            best = load_bilm(self.run.best, softmax=True).to(self.trainer.device)
            found = self._measured(best)
            progress = self.trainer.progress
            result = {
                **found["domain"],
                **self._before_and_after(found),
                "step": progress.step,
                "best_step": progress.best_step,
                "words": progress.words,
                "epochs": progress.words / self.trainer.batches.tokens_per_epoch,
                "seconds": self._seconds(),
                "seed": self.settings.seed,
            }
            self.run.write_json("result.json", result)
            write_card(self.run, self.settings, best, self.texts.train)
        return result

    def _before_and_after(self, after: dict[str, Any]) -> dict[str, Any]:
        """Of a run that adapts a model: what it cost and gained, under one vocabulary."""
        before = self.run.folder / BEFORE
        if self.settings.start.model is None:
            return {}
        return {"before": json.loads(before.read_text()) if before.is_file() else None, "after": after}

    def _write_model(self, name: str) -> None:
        bilm, progress = self.trainer.objective.bilm, self.trainer.progress
        training = {
            "step": progress.step,
            "words": progress.words,
            "corpus": self.texts.train.fingerprint,
            "seed": self.settings.seed,
            "recipe": to_plain(self.settings)["optimizer"],
        }
        bundle = WeightBundle(
            config=bilm.config,
            tensors={key: value.detach().cpu().clone() for key, value in bilm.state_dict().items()},
            provenance=Provenance(format="native", source=self.run.folder.name, training=training),
            vocabulary=bilm.vocabulary,
        )
        with self.run.replacing(name) as folder:
            write_weights(bundle, folder)


def refuse_what_is_no_perplexity(found: Perplexity, *, n_words: int) -> None:
    """Guessing costs log(words) nats; a young model that carries its state may cost more, but not thrice as much."""
    if not found.perplexity < n_words**3:
        raise Diverged(f"the perplexity is {found.perplexity:.3g} with {n_words:,} words")


def evaluate(bilm: BiLM, sentences: list[list[str]]) -> Perplexity:
    """As `elmokit perplexity` does: exact, each sentence from the state that the model is used with."""
    training = bilm.training
    bilm.eval()
    found = perplexity(Engine(bilm), sentences, start="zero" if bilm.config.state == "zero" else "settled")
    bilm.train(training)
    return found


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C lets the step finish and be saved; a second one does not wait."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(*_: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
