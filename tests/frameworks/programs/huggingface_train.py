"""python huggingface_train.py FOLDER STEPS: trains for three epochs of four steps. Prints the number of rounds to stderr."""
import sys

import torch
import transformers

import mtshim
from mtshim.integrations.huggingface import RoundCallback


class Model(torch.nn.Module):
	def __init__(self):
		super().__init__()
		self.layer = torch.nn.Linear(8, 1)

	def forward(self, x, labels):
		return {"loss": torch.nn.functional.mse_loss(self.layer(x)[:, 0], labels)}


transformers.set_seed(1)
data = [{"x": torch.full((8,), float(i % 3)), "labels": torch.tensor(float(i % 2))} for i in range(16)]
arguments = transformers.TrainingArguments(output_dir=sys.argv[1], num_train_epochs=3, per_device_train_batch_size=4, report_to=[],
                                           save_strategy="no", use_cpu=True, disable_tqdm=True)
steps = int(sys.argv[2])
trainer = transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[RoundCallback(steps) if steps else RoundCallback()])
trainer.remove_callback(transformers.PrinterCallback)  # it prints times
result = trainer.train()
print(result.global_step, round(result.training_loss, 4))
print("rounds", mtshim.stats().rounds_count, file=sys.stderr)
