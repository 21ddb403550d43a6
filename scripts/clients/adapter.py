"""Carries out the calls of standard input, one JSON object in a line, with /clients/commons.py."""

import json
import sys
from itertools import islice

from commons import Commons


def tell(**answer):
    print(json.dumps(answer), flush=True)


commons = None
for line in sys.stdin:
    call = json.loads(line)
    try:
        commons = commons or Commons(**json.loads(sys.argv[1]))
        answer = getattr(commons, call["method"])(*(call["args"] or ()), **(call["fields"] or {}))
        if call["take"]:
            for item in islice(answer, call["take"]):
                tell(item=item)
            answer.close()
        else:
            tell(item=answer)
        tell(min_index=commons.min_index)
    except Exception as error:
        tell(failure={"kind": type(error).__name__, "text": str(error), **vars(error)})
