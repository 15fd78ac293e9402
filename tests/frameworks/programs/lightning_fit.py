"""python lightning_fit.py BATCHES: trains for three epochs of four batches. Prints the number of rounds to stderr."""
import sys

import lightning.pytorch as lightning
import torch

import mtshim
from mtshim.integrations.lightning import RoundCallback


class Model(lightning.LightningModule):
	def __init__(self):
		super().__init__()
		self.layer = torch.nn.Linear(8, 1)

	def training_step(self, batch, index):
		return torch.nn.functional.mse_loss(self.layer(batch[0])[:, 0], batch[1])

	validation_step = training_step

	def configure_optimizers(self):
		return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(16, 8), torch.zeros(16)), batch_size=4)
batches = int(sys.argv[1])
trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False, callbacks=[RoundCallback(batches) if batches else RoundCallback()])
model = Model()
trainer.fit(model, data, data)
print(trainer.global_step, model.layer(torch.ones(8)).item())
print("rounds", mtshim.stats().rounds_count, file=sys.stderr)
