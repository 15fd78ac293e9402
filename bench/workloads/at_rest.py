#!/usr/bin/env python3
"""Programs of PyTorch and of web servers that have done their work and wait: usage at_rest.py import|trainer|lightning|compile|matrices|fastapi.

Prints `rest` and waits for the end of its standard input. Needs torch, transformers, accelerate, lightning, fastapi and uvicorn of PyPI."""
import sys
import os
import tempfile


def only_import():
	import torch
	torch.zeros(1)


def trainer():
	import torch
	import transformers as tf
	config = tf.BertConfig(vocab_size=2000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=256)
	model = tf.BertForSequenceClassification(config)
	rows = [{"input_ids": torch.randint(0, 2000, (64,)), "labels": torch.tensor(i % 2)} for i in range(400)]
	with tempfile.TemporaryDirectory() as folder:
		words = tf.TrainingArguments(folder, num_train_epochs=2, per_device_train_batch_size=16, report_to=[], save_strategy="no", use_cpu=True)
		tf.Trainer(model, words, train_dataset=rows).train()


def lightning():
	import lightning as L
	import torch

	class Net(L.LightningModule):
		def __init__(self):
			super().__init__()
			self.net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))

		def training_step(self, batch, _):
			return self.net(batch[0]).square().mean()

		def configure_optimizers(self):
			return torch.optim.Adam(self.parameters())

	data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(4000, 256)), batch_size=32)
	L.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu").fit(Net(), data)


def compiled():
	import torch
	work = torch.compile(lambda a, b: (a @ b).relu().sum(dim=1).softmax(0))
	for _ in range(20):
		work(torch.randn(300, 300), torch.randn(300, 300))


def matrices():
	import torch
	net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)])
	best = torch.optim.Adam(net.parameters())
	for _ in range(20):
		best.zero_grad()
		net(torch.randn(2048, 1024)).square().mean().backward()
		best.step()


def fastapi():
	import threading
	import time
	import urllib.request
	import pydantic
	import uvicorn
	import fastapi as fa
	app = fa.FastAPI()

	class Row(pydantic.BaseModel):
		name: str
		values: list[float]

	@app.get("/rows")
	async def rows(count: int = 2000) -> list[Row]:
		return [Row(name=f"row{i}", values=[i + j / 7 for j in range(20)]) for i in range(count)]

	server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
	threading.Thread(target=server.run, daemon=True).start()
	while not server.started:
		time.sleep(.05)
	port = server.servers[0].sockets[0].getsockname()[1]
	for _ in range(30):
		urllib.request.urlopen(f"http://127.0.0.1:{port}/rows").read()


KINDS = {"import": only_import, "trainer": trainer, "lightning": lightning, "compile": compiled, "matrices": matrices, "fastapi": fastapi}

if __name__ == "__main__":
	KINDS[sys.argv[1]]()
	print("rest", flush=True)
	sys.stdin.read()
	os._exit(0)
