"""The command that fits what `tools_search_ranking.semantic.minilm` changes for queries, and writes it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from tools_search_ranking.semantic.embedder import STEPS
from tools_search_ranking.semantic.minilm import CHANGES, model_file

from benchmarks.meaning.examples import EVERY, Examples, read_examples
from benchmarks.meaning.fitting import Fitted, fit
from benchmarks.meaning.model import Model, read_model
from benchmarks.options import FILE


@click.command()
@click.option("--out", type=FILE, default=CHANGES, help="File for the changes. [default: that of the package]")
@click.option("--steps", type=click.IntRange(min=31), default=700, show_default=True)
@click.option("--part", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="Write this part of them.")
@click.option("--seed", type=int, default=0, show_default=True)
def main(out: Path, steps: int, part: float, seed: int) -> None:
    """Fit the model to the requests in `tools.jsonl`, and write what it changes."""
    model, examples = read_model(model_file()), read_examples()
    write(out, model, fit(model, examples, steps, seed), part, examples)


def write(out: Path, model: Model, fitted: Fitted, part: float, examples: Examples) -> None:
    """Write a part of what was fitted, and the vectors of some tools, in the form that the package reads."""
    arrays = {"digest": np.array(model.digest), "map": np.asarray(fitted.map * part, dtype=np.float16)}
    arrays["others"] = np.rint(examples.texts[::EVERY] * STEPS).astype(np.int16)
    places = [model.places[name] for name in fitted.factors]
    arrays["places"] = np.array([(place.weights, place.scales) for place in places])
    for number, (left, right) in enumerate(fitted.factors.values()):
        arrays |= {
            f"left_{number}": np.asarray(left, np.float16),
            f"right_{number}": np.asarray(right * part, np.float16),
        }
    np.savez_compressed(out, allow_pickle=False, **arrays)


if __name__ == "__main__":
    main()
