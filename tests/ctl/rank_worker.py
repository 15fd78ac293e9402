"""One rank of a job that trains: holds memory as its rank says, lets some go and takes it again, until its parent is gone.

  rank_worker.py MB_FOR_EACH_RANK"""
import os
import sys
import time

rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
weights = [bytearray(b"w" * 4096) for _ in range((rank + 1) * int(sys.argv[1]) << 8)]
parent = os.getppid()
while os.getppid() == parent:
	batch = [bytearray(4096) for _ in range(2048)]
	time.sleep(0.1)
	del batch
