"""The six layers of all-MiniLM-L6-v2 in JAX, so that they can be fitted (BERT; Devlin and others, 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Their types are partly unknown.
jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")
onnx: Any = import_module("onnx")

LAYERS: Final = 6
_HEADS: Final = 12
_EPSILON: Final = 1e-12

_ATTENTION: Final = ("attention.self.query", "attention.self.key", "attention.self.value")
_MATRICES: Final = (*_ATTENTION, "attention.output.dense", "intermediate.dense", "output.dense")

Tensors: TypeAlias = Mapping[str, Any]
"""Tensors by name, such as `layer.0.output.dense.weight`."""

Factors: TypeAlias = dict[str, tuple[Any, Any]]
"""Two factors by matrix. Their product is added to it, so few numbers change it (LoRA; Hu and others, 2021)."""


@dataclass(frozen=True)
class Place:
    """Offsets of a matrix in the model's file, in bytes."""

    weights: int
    """Its 8-bit integers."""

    scales: int
    """The number that each of its columns is multiplied by."""


@dataclass(frozen=True)
class Model:
    """A model as stored in its file."""

    digest: str
    """The SHA-256 of the file."""

    tensors: Tensors

    places: Mapping[str, Place]
    """Where each matrix is, by name, such as `layer.0.output.dense`."""


def read_model(file: Path) -> Model:
    """Read a model in ONNX whose matrices are 8-bit integers with a scale for each column."""
    data = file.read_bytes()
    graph = onnx.load_model_from_string(data).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    added = {name: node for node in graph.node if node.op_type == "Add" for name in node.input}
    tensors = {_plain(name): onnx.numpy_helper.to_array(tensor) for name, tensor in stored.items()}
    places: dict[str, Place] = {}
    for node in graph.node:
        if node.op_type == "MatMul" and (weights := stored.get(f"{node.input[1]}_q")):
            # A matrix has no name in the file, unlike the bias that is added to its product.
            bias = next(name for name in added[node.output[0]].input if name in stored)
            matrix, scales = _plain(bias).removesuffix(".bias"), stored[f"{node.input[1]}_scale"]
            tensors[f"{matrix}.weight"] = _scaled(stored, node.input[1])
            places[matrix] = Place(data.index(weights.raw_data), data.index(scales.raw_data))
    for kind in ("word", "position"):
        name = f"embeddings.{kind}_embeddings.weight"
        tensors[name] = _scaled(stored, f"inner.{name}")
    return Model(sha256(data).hexdigest(), {name: jnp.asarray(each) for name, each in tensors.items()}, places)


def unchanged(model: Model, first: int, rank: int, chance: np.random.Generator) -> Factors:
    """Return factors for each matrix of the layers from `first` on, whose product is zero."""
    found: Factors = {}
    for layer in range(first, LAYERS):
        for name in _MATRICES:
            rows, columns = model.tensors[f"layer.{layer}.{name}.weight"].shape
            left = chance.normal(0, rows**-0.5, (rows, rank)).astype(np.float32)
            found[f"layer.{layer}.{name}"] = (jnp.asarray(left), jnp.zeros((rank, columns)))
    return found


def embedded(tensors: Tensors, pieces: Any) -> Any:
    """Return the states of these pieces before the first layer."""
    kinds = ("word", "position", "token_type")
    words, positions, types = (tensors[f"embeddings.{kind}_embeddings.weight"] for kind in kinds)
    return _normalized(tensors, "embeddings", words[pieces] + positions[: pieces.shape[1]] + types[0])


def after(tensors: Tensors, layers: Sequence[int], factors: Factors, states: Any, mask: Any) -> Any:
    """Return the states after some layers, changed by `factors`; the mask is 1 for each piece and 0 after the last."""

    def product(name: str, rows: Any) -> Any:
        found = rows @ tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
        if name in factors:
            left, right = factors[name]
            found += rows @ left @ right
        return found

    count, length, size = states.shape
    unseen = jnp.where(mask[:, None, None] > 0, 0.0, -1e9)
    for layer in layers:
        name = f"layer.{layer}"
        heads = (product(f"{name}.{part}", states).reshape(count, length, _HEADS, -1) for part in _ATTENTION)
        query, key, value = (each.transpose(0, 2, 1, 3) for each in heads)
        seen = jax.nn.softmax(query @ key.transpose(0, 1, 3, 2) / np.sqrt(size // _HEADS) + unseen, axis=-1) @ value
        attended = product(f"{name}.attention.output.dense", seen.transpose(0, 2, 1, 3).reshape(count, length, size))
        states = _normalized(tensors, f"{name}.attention.output", states + attended)
        inner = jax.nn.gelu(product(f"{name}.intermediate.dense", states), approximate=False)
        states = _normalized(tensors, f"{name}.output", states + product(f"{name}.output.dense", inner))
    return states


def pooled(states: Any, mask: Any) -> Any:
    """Return the mean of the states of each text's pieces, as a vector of length 1."""
    return units((states * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True))


def units(rows: Any) -> Any:
    """Return the rows with length 1."""
    return rows / jnp.sqrt(jnp.square(rows).sum(axis=-1, keepdims=True) + _EPSILON)


def _normalized(tensors: Tensors, name: str, rows: Any) -> Any:
    centered = rows - rows.mean(axis=-1, keepdims=True)
    spread = jnp.sqrt(jnp.square(centered).mean(axis=-1, keepdims=True) + _EPSILON)
    return centered / spread * tensors[f"{name}.LayerNorm.weight"] + tensors[f"{name}.LayerNorm.bias"]


def _plain(name: str) -> str:
    return name.removeprefix("inner.").removeprefix("encoder.")


def _scaled(stored: Mapping[str, Any], name: str) -> NDArray[np.float32]:
    weights, scales = (onnx.numpy_helper.to_array(stored[f"{name}_{part}"]) for part in ("q", "scale"))
    return weights.astype(np.float32) * scales
