"""An app whose broker is the folder of the variable BROKER. Each result has the process and its rounds so far."""
import os

from celery import Celery

import mtshim
import mtshim.integrations.celery

folder = os.environ["BROKER"]
app = Celery("tasks", broker="filesystem://", backend=f"file://{folder}")
app.conf.broker_transport_options = {"data_folder_in": folder, "data_folder_out": folder, "control_folder": folder}
mtshim.integrations.celery.connect(every=2)


@app.task
def work(number):
	if number == 3:
		raise ValueError(number)
	return [sum(range(number)), os.getpid(), mtshim.stats().rounds_count]
