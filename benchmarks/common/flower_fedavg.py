"""FedAvg in Flower's simulation engine, by an interpreter that has it: `python flower_fedavg.py JOB.npz OUT.npz`.

The job is least squares for classes: clients X0, Y0, X1, Y1, ..., full-batch steps, every class's derivative of a
record clipped, Gaussian noise of a given deviation in the mean direction of a client's steps, a box. The strategy is
Flower's own FedAvg, weighted by numbers of records. Trials run one after another, as the engine runs them. No import of
Parley here.
"""

import json
import logging
import sys
import time
from typing import Any

import numpy as np


def local_steps(X: Any, Y: Any, theta: Any, asked: dict[str, Any], rng: Any) -> Any:
    """Where a client's local steps from theta end [classes, p]."""
    w, limit = theta, asked["clip"] / (np.sqrt(len(theta)) * np.maximum(np.linalg.norm(X, axis=1), 1e-300))
    for _ in range(asked["local_steps"]):
        derivative = np.clip(2 * (w @ X.T - Y.T), -limit, limit)
        w = np.clip(w - asked["step"] * derivative @ X / len(X), -asked["radius"], asked["radius"])
    return w + asked["step"] * asked["local_steps"] * rng.normal(scale=asked["deviation"], size=w.shape)


def main() -> None:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    job = dict(np.load(sys.argv[1]))
    asked = json.loads(str(job["settings"]))
    tables = [(job[f"X{k}"], job[f"Y{k}"]) for k in range(asked["clients"])]
    seconds: list[float] = []
    models: list[Any] = []
    client_app, server_app = ClientApp(), ServerApp()

    @client_app.train()  # type: ignore[untyped-decorator, unused-ignore]
    def train(message: Message, context: Context) -> Message:
        place, config = int(context.node_config["partition-id"]), message.content["config"]
        X, Y = tables[place]
        rng = np.random.default_rng([asked["seed"], int(config["trial"]), int(config["server-round"]), place])
        w = local_steps(X, Y, message.content["arrays"].to_numpy_ndarrays()[0], asked, rng)
        content = RecordDict({"arrays": ArrayRecord([w]), "metrics": MetricRecord({"num-examples": len(X)})})
        return Message(content=content, reply_to=message)

    @server_app.main()  # type: ignore[untyped-decorator, unused-ignore]
    def serve(grid: Grid, context: Context) -> None:
        from flwr.app import ConfigRecord

        for trial in range(asked["trials"]):
            began = time.perf_counter()
            strategy = FedAvg(
                fraction_evaluate=0.0, min_train_nodes=asked["clients"], min_available_nodes=asked["clients"]
            )
            start = ArrayRecord([np.zeros((tables[0][1].shape[1], tables[0][0].shape[1]))])
            result = strategy.start(
                grid, start, num_rounds=asked["rounds"], train_config=ConfigRecord({"trial": trial})
            )
            seconds.append(time.perf_counter() - began)
            models.append(np.clip(result.arrays.to_numpy_ndarrays()[0], -asked["radius"], asked["radius"]))

    run_simulation(server_app, client_app, asked["clients"], backend_config={"client_resources": {"num_cpus": 1}})
    np.savez(sys.argv[2], theta=np.array(models), seconds=np.array(seconds))


if __name__ == "__main__":
    main()
