"""Answers what published code gives for inputs of Troupe's methods; see published_code.py for how that code is run."""

import importlib.metadata
import importlib.util
import math
import pathlib

import torch

import published_advantages
import published_filters
import published_losses
import published_process
import published_rewards
import published_tree_advantages
from worker import serve

PUBLISHED = {
    name: one
    for module in (
        published_advantages,
        published_filters,
        published_losses,
        published_process,
        published_rewards,
        published_tree_advantages,
    )
    for name, one in vars(module).items()
}
# Where their code takes the default type, it counts as ours does.
torch.set_default_dtype(torch.float64)


def packages(names):
    """Of each package its version and folder, without importing it; null for one that is not installed."""
    found = {name: importlib.util.find_spec(name) for name in names}
    return {
        name: spec
        and {"version": importlib.metadata.version(name), "folder": str(pathlib.Path(spec.origin).parent.parent)}
        for name, spec in found.items()
    }


def run(function, files, options, inputs):
    """Of each input the value, or what was raised."""
    computed = PUBLISHED[function](*files, *options)
    return [answer(computed, one) for one in inputs]


def answer(computed, one):
    try:
        return {"value": plain(computed(**one))}
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}"}


def plain(value):
    """As JSON can hold it: a number that is not finite as its name."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


serve({"packages": packages, "run": run})
