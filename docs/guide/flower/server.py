"""A ServerApp that has a fit made over the sites of all nodes."""

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

from sksurvgpu import CoxLassoCCD
from sksurvgpu.federated import Coordinator

app = ServerApp()


def ask(grid, node, data=b""):
    content = RecordDict({"site": ConfigRecord({"bytes": data})})
    [reply] = grid.send_and_receive([Message(content, dst_node_id=node, message_type="query")])
    return reply.content["site"]


@app.main()
def main(grid, context):
    sites = {
        ask(grid, node)["name"]: lambda data, node=node: ask(grid, node, data)["bytes"]
        for node in grid.get_node_ids()
    }
    coordinator = Coordinator(CoxLassoCCD(), sites, grid=np.arange(50.0, 1001.0, 50.0))
    coordinator.fit().summary().to_csv("/srv/fits/coefficients.csv")
