#!/usr/bin/python3
"""A PyTorch DataLoader with 4 worker processes feeds the training of a small CNN on the CPU, for some epochs.

The data set makes its images from a seed and needs no files, but takes memory as one of photographs does: the bytes of
the file, the planes of the decoder as floats, the picture, a crop of it, all of a size that differs from image to image
(from 0.05 to 4 megapixels), and what is left of them in the end is 110 kB. Between epochs the model is evaluated on a
batch that is kept, and then nothing happens for a while (--wait), as when metrics and checkpoints are sent away.

The workers live from epoch to epoch (persistent_workers=True), as people have them for whom starting them each time
takes too long; so they are still there at the end, when the trainer lies idle, and what they hoard counts as well.
--restart has them again each epoch, as is torch's default: they are gone while the trainer lies idle.

--trim: the program collects and calls malloc_trim(0), the trainer after each epoch, a worker after every 50 images.
Prints one JSON line of figures. MiB are 1048576 bytes.
"""
import argparse
import json
import time
import warnings

import idling
import numpy
import procself
import torch

WORKERS = 4
BATCH = 32
IMAGES = 320            # in an epoch
SIDE = 96               # of what the model is given
BLOCK = 8               # of the code of an image, as in JPEG
IMAGES_A_TRIM = 50
MEAN = numpy.array([0.485, 0.456, 0.406], dtype=numpy.float32)
DEVIATION = numpy.array([0.229, 0.224, 0.225], dtype=numpy.float32)


def image_size(chance):
	"""Width and height in blocks: most near 500 x 375 pixels, as in ImageNet; some ten times as large."""
	pixels = min(max(190_000 * chance.lognormal(0, 0.9), 50_000), 4_000_000)
	ratio = chance.choice((4 / 3, 3 / 4, 1, 3 / 2))
	return int((pixels * ratio) ** 0.5) // BLOCK, int((pixels / ratio) ** 0.5) // BLOCK


def read_file(chance, width, height):
	"""What lies on the disk: about two bits a pixel."""
	return chance.bytes(width * height * BLOCK * BLOCK // 4)


def decode(data, width, height):
	"""Bytes of a file to a picture: a value for each block of each plane, spread over the block, and to RGB (JFIF)."""
	code = numpy.frombuffer(data, dtype=numpy.uint8, count=width * height * 3).reshape(3, height, width)
	planes = [(plane.astype(numpy.float32) - 128).repeat(BLOCK, axis=1).repeat(BLOCK, axis=0) for plane in code]
	light, blue, red = planes[0] * 0.8 + 128, planes[1] * 0.3, planes[2] * 0.3
	picture = numpy.empty((*light.shape, 3), dtype=numpy.uint8)
	picture[..., 0] = (light + 1.402 * red).clip(0, 255)
	picture[..., 1] = (light - 0.344136 * blue - 0.714136 * red).clip(0, 255)
	picture[..., 2] = (light + 1.772 * blue).clip(0, 255)
	return picture


def crop(picture, chance):
	"""A part of 30 to 100 % of each side, at random, half of them mirrored."""
	height, width = picture.shape[:2]
	share = chance.uniform(0.3, 1.0)
	tall, wide = int(height * share), int(width * share)
	top, left = chance.integers(0, height - tall + 1), chance.integers(0, width - wide + 1)
	part = picture[top:top + tall, left:left + wide]
	return part[:, ::-1] if chance.random() < 0.5 else part


def resize(picture, side):
	"""Rows, then columns, each between its two neighbours."""
	part = picture.astype(numpy.float32)
	for axis in (0, 1):
		at = numpy.linspace(0, part.shape[axis] - 1, side, dtype=numpy.float32)
		low = at.astype(numpy.int64)
		high = numpy.minimum(low + 1, part.shape[axis] - 1)
		shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
		weight = (at - low.astype(numpy.float32)).reshape(shape)
		part = part.take(low, axis) * (1 - weight) + part.take(high, axis) * weight
	return part


class Photographs(torch.utils.data.Dataset):
	"""As an ImageFolder: a list of paths and labels; the image is read, decoded and augmented when it is asked for."""

	def __init__(self, images, seed, trim):
		self.samples = [(f"/data/train/class{number % 10:03d}/image{number:08d}.jpeg", number % 10) for number in range(images)]
		self.seed = seed
		self.trim = trim
		self.made = 0

	def __len__(self):
		return len(self.samples)

	def __getitem__(self, number):
		_, label = self.samples[number]
		chance = numpy.random.default_rng((self.seed, number))
		width, height = image_size(chance)
		picture = decode(read_file(chance, width, height), width, height)
		image = (resize(crop(picture, chance), SIDE) / 255 - MEAN) / DEVIATION
		self.made += 1
		if self.trim and self.made % IMAGES_A_TRIM == 0:
			idling.trim_by_hand()
		return torch.from_numpy(numpy.ascontiguousarray(image.transpose(2, 0, 1))), label


def build_model():
	nn = torch.nn
	return nn.Sequential(
		nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
		nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
		nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
		nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, 10))


def train_epoch(model, optimiser, loader):
	total = 0.0
	for images, labels in loader:
		optimiser.zero_grad()
		loss = torch.nn.functional.cross_entropy(model(images), labels)
		loss.backward()
		optimiser.step()
		total += loss.item()
	return total / len(loader)


def evaluate(model, batch):
	images, labels = batch
	model.eval()
	with torch.no_grad():
		right = (model(images).argmax(1) == labels).float().mean().item()
	model.train()
	return right


def run_epochs(options, loader, model, held_out):
	"""Returns the seconds of work, and the last loss."""
	optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
	work, loss = 0.0, 0.0
	for epoch in range(options.epochs):
		begun = time.monotonic()
		loss = train_epoch(model, optimiser, loader)
		evaluate(model, held_out)
		if options.trim:
			idling.trim_by_hand()
		work += time.monotonic() - begun
		if epoch + 1 < options.epochs:
			time.sleep(options.wait)
	return work, loss


def parse_options():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--epochs", type=int, default=3)
	parser.add_argument("--images", type=int, default=IMAGES, help="in an epoch")
	parser.add_argument("--wait", type=float, default=1.0, help="seconds between epochs")
	parser.add_argument("--seed", type=int, default=1)
	parser.add_argument("--restart", action="store_true", help="new workers each epoch, as is torch's default")
	parser.add_argument("--trim", action="store_true", help="gc.collect() and malloc_trim(0), in the trainer and in workers")
	idling.add_option(parser)
	return parser.parse_args()


def main():
	options = parse_options()
	warnings.filterwarnings("ignore", "This DataLoader will create")  # 4 workers on 2 cores: on purpose
	torch.set_num_threads(1)  # the workers need the other cores
	torch.manual_seed(options.seed)
	data = Photographs(options.images, options.seed, options.trim)
	loader = torch.utils.data.DataLoader(data, BATCH, shuffle=True, num_workers=WORKERS, multiprocessing_context="fork",
		persistent_workers=not options.restart)
	held_out = torch.utils.data.default_collate([data[number] for number in range(min(BATCH, options.images))])
	model = build_model()
	work, loss = run_epochs(options, loader, model, held_out)
	idling.go_idle(options.idle)
	print(json.dumps({
		"work_s": work,
		"images_per_s": options.epochs * options.images / work,
		"main_rss_mib": procself.rss_mib(),
		"main_peak_mib": procself.peak_mib(),
		"minor_faults": procself.minor_faults(),
		"loss": loss,
	}))


if __name__ == "__main__":
	main()
