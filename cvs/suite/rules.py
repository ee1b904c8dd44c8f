"""The rules of per-entry mode that can be turned off by name, one by one or together."""

from dataclasses import replace

from cvs.programs.machine import Unknowns
from cvs.simulate.world import Scenario

RULES = ("signature-check", "unknown-resolution", "keeping-deleted-signatures", "flow-control")


def without(names: tuple[str, ...], world: Scenario) -> Scenario:
    """Return the scenario with these rules turned off."""
    policy, flow_control = world.policy, world.flow_control
    for name in names:
        if name == "signature-check":
            policy = replace(policy, signature_check=False)
        elif name == "unknown-resolution":
            policy = replace(policy, unknowns=Unknowns.TAKE_FOR_APPLIED)
        elif name == "keeping-deleted-signatures":
            policy = replace(policy, keep_deleted=False)
        elif name == "flow-control":
            flow_control = False
        else:
            raise ValueError(name)
    return replace(world, policy=policy, flow_control=flow_control)
