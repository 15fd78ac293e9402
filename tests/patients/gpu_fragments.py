"""Sequences of all lengths, of which the short ones are kept: each segment of PyTorch's cache is mostly free, none is whole, and a
batch that would fit into what is free finds no place."""
import torch

from patient import goes_on, ready

state = bytearray(b"s") * (20 << 20)
kept, passing = [], []
for _ in range(19):
	passing.append(torch.cuda.empty(16 << 20))
	kept.append(torch.cuda.empty(3 << 20))
del passing


def attempt():
	try:
		torch.cuda.empty(60 << 20)
	except torch.cuda.OutOfMemoryError:
		return False
	return True


assert not attempt()
ready()
while goes_on(1):
	attempt()
