"""Every operator that PyTorch's own tests know, on the inputs that they know for it, forward and backward: a line for each with
a digest of all the bits that came out. The same bits are expected with any allocator.

  torch_operators.py PART PARTS   the operators whose number is PART modulo PARTS

The table is PyTorch's (torch.testing._internal); what of its tests is not in Debian is `expecttest`, of which the table needs
nothing but that it is there.
"""
import hashlib
import random
import sys
import types
import unittest
import warnings

sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False))
PART, PARTS = int(sys.argv[1]), int(sys.argv[2])
sys.argv[1:] = []  # the table's module reads them as its own
warnings.simplefilter("ignore")

import numpy  # noqa: E402
import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

# Their results are whatever was in memory, or differ from run to run without the shim: PyTorch 1.13 does not set the memory that
# the gradient of as_strided_scatter and the pivots of linalg.lstsq (driver gelsy) begin from.
UNSET = ("empty", "new_empty", "resize", "as_strided_scatter", "linalg.lstsq")
SAMPLES_MOST = 6
TYPES = (torch.float32, torch.float64, torch.complex64, torch.int64, torch.bool)


def tensors_of(value):
	if isinstance(value, torch.Tensor):
		return [value]
	if isinstance(value, (list, tuple)):
		return [tensor for one in value for tensor in tensors_of(one)]
	return []


def add(digest, value):
	"""All bits, in the order of the elements and not of the memory. A tensor that is only known to be zero has none."""
	for tensor in tensors_of(value):
		if tensor._is_zerotensor():  # pylint: disable=protected-access
			tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
		dense = tensor.detach().resolve_conj().resolve_neg()
		dense = (dense.to_dense() if dense.layout != torch.strided else dense).contiguous()
		digest.update(f"{dense.dtype} {tuple(dense.shape)}".encode())
		digest.update(dense.view(-1).view(torch.uint8).numpy().tobytes() if dense.numel() and dense.dim() else
		              str(dense.tolist()).encode())


def differentiate(op, sample, result, digest):
	leaves = [tensor for tensor in tensors_of([sample.input, *sample.args]) if tensor.requires_grad]
	sums = [tensor.abs().sum() for tensor in tensors_of(result) if tensor.requires_grad]
	if leaves and sums and op.supports_autograd:
		add(digest, [one for one in torch.autograd.grad(sum(sums), leaves, allow_unused=True) if one is not None])


def run(op, dtype, with_grad):
	digest = hashlib.sha256()
	random.seed(7)
	numpy.random.seed(7)
	torch.manual_seed(7)
	for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=with_grad)):
		if number == SAMPLES_MOST:
			break
		torch.manual_seed(number)
		result = op.op(sample.input, *sample.args, **sample.kwargs)
		add(digest, result)
		if with_grad:
			differentiate(op, sample, result, digest)
	return digest.hexdigest()[:16]


def outcome_of(op, dtype, with_grad):
	"""What an operator refuses it must refuse in the same way."""
	try:
		return run(op, dtype, with_grad)
	except Exception as error:  # pylint: disable=broad-except
		return f"{type(error).__name__}"


def main():
	chosen = [op for number, op in enumerate(op_db) if number % PARTS == PART and not any(word in op.name for word in UNSET)]
	for op in chosen:
		name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
		for dtype in TYPES:
			if op.supports_dtype(dtype, "cpu"):
				with_grad = dtype == torch.float64 and op.supports_autograd
				print(f"{name} {dtype}\t{outcome_of(op, dtype, with_grad)}", flush=True)


main()
