"""A ClientApp that hands messages on to the site beside its SuperNode."""

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from sksurvgpu.federated.files import Mailbox

app = ClientApp()


@app.query()
def answer(message, context):
    site = Mailbox(context.node_config["folder"], context.node_config["site"])
    data = message.content["site"]["bytes"]
    said = ConfigRecord({"name": site.name, "bytes": site.send(data) if data else b""})
    return Message(RecordDict({"site": said}), reply_to=message)
