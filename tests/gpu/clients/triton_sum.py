"""A kernel that Triton compiles, over tensors of PyTorch of many sizes."""
import torch
import triton
import triton.language as tl

from client import finish


@triton.jit
def add(left, right, out, count, BLOCK: tl.constexpr):
	at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
	mask = at < count
	tl.store(out + at, tl.load(left + at, mask=mask) + tl.load(right + at, mask=mask), mask=mask)


results = []
for size in (1, 1000, 100000, 3000000):
	for number in range(5):
		one = torch.arange(size + number, dtype=torch.float32, device="cuda") % 97
		two = torch.full_like(one, float(number))
		out = torch.empty_like(one)
		add[(triton.cdiv(size + number, 1024),)](one, two, out, size + number, BLOCK=1024)
		assert torch.equal(out, one + two)
		results.append(float(out.sum(dtype=torch.float64)))
finish(triton=triton.__version__, results=results)
