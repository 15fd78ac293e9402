"""A service tuned with gc.freeze() and a threshold so high that the collector never comes: trees with parent links pile up."""
import gc

from patient import goes_on, ready


class Node:
	def __init__(self, parent=None):
		self.parent = parent
		self.children = []
		self.text = f"{id(self):1000}"
		if parent is not None:
			parent.children.append(self)


def parse():
	root = Node()
	for _ in range(20):
		Node(root)


gc.collect()
gc.freeze()
gc.set_threshold(50_000_000, 50, 100)
for _ in range(1000):
	parse()
ready()
while goes_on(0.05):
	for _ in range(5):
		parse()
