"""Python as it is: objects in cycles are made and dropped all the time, and the collector comes by itself."""
from patient import goes_on, ready


class Node:
	def __init__(self, parent=None):
		self.parent = parent
		self.children = []
		if parent is not None:
			parent.children.append(self)


table = {i: str(i) for i in range(200_000)}
ready()
while goes_on(0.05):
	for _ in range(100):
		root = Node()
		for _ in range(20):
			Node(root)
