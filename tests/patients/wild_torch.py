"""PyTorch on the CPU: a small network is trained, step after step, and nothing is kept."""
import torch

from patient import goes_on, ready

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 30 * 30, 10))
optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def step():
	optimiser.zero_grad()
	loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 3, 32, 32)), torch.randint(0, 10, (16,)))
	loss.backward()
	optimiser.step()


step()
ready()
while goes_on(0.2):
	step()
