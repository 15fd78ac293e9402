"""A small GPT-2 of a random configuration (nothing is fetched): some steps of training, then a greedy generation with its cache."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from client import finish

torch.manual_seed(1)
torch.backends.cuda.matmul.allow_tf32 = False
model = GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=256, n_embd=128, n_layer=4, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, attn_implementation="eager",
                                   bos_token_id=0, eos_token_id=None)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
for number in range(12):
	tokens = torch.randint(0, 1000, (8, 32 + 16 * (number % 5)), generator=torch.Generator().manual_seed(number)).cuda()
	loss = model(tokens, labels=tokens).loss
	loss.backward()
	optimizer.step()
	optimizer.zero_grad(set_to_none=True)
	losses.append(loss.item())
model.eval()
with torch.no_grad():
	words = model.generate(torch.tensor([[1, 2, 3]], device="cuda"), max_new_tokens=100, do_sample=False, pad_token_id=0)
assert words.shape[1] == 103
finish(torch=torch.__version__, results=losses)
