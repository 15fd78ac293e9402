"""A step of training compiled with mode="reduce-overhead" (Triton's kernels, CUDA graphs), on inputs of a fixed seed."""
import torch

from client import finish

torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = False
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
inputs, labels = torch.randn(128, 256, device="cuda"), torch.randint(0, 10, (128,), device="cuda")


@torch.compile(mode="reduce-overhead")
def loss_of(x, y):
	return torch.nn.functional.cross_entropy(model(x), y)


losses = []
for _ in range(12):
	torch.compiler.cudagraph_mark_step_begin()
	optimizer.zero_grad(set_to_none=True)
	loss = loss_of(inputs, labels)
	loss.backward()
	optimizer.step()
	losses.append(loss.item())
	scratch = [torch.ones(50000 * number, device="cuda") for number in range(1, 9)]  # beside the graphs' own memory
	del scratch
assert losses[-1] < losses[0], losses
finish(torch=torch.__version__, results=losses)
