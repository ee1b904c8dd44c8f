"""The judge: from what a run left behind to findings, levels and witnesses. Pure; knows no program."""
