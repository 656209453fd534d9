"""Records a browser of another machine, which needs no more than that.

    python -m bench.crowd.record_away export FOLDER
    python -m bench.crowd.record_away import NAME MACHINE ANSWER ...

The folder is to be served with cross-origin isolation there. What `run.js` evaluates to in
`race.html`, as the body of an async function, is the answer of a pass; each is to have a fresh
profile. All answers of a device are imported together, under a name of its own.
"""

import sys
from pathlib import Path

import msgspec

from bench.crowd.record_site import files, spaces
from bench.gpu.site import write
from fixtures.recorded.answer import RecordedAnswer, take_in

SCRIPT = b"return await kernelzooRace.run();\n"


def main() -> None:
    every = spaces()
    match sys.argv[1:]:
        case ["export", folder]:
            write(Path(folder), files(every) | {"run.js": SCRIPT})
        case ["import", name, machine, *answers] if answers:
            found = [
                msgspec.json.decode(Path(each).read_bytes(), type=RecordedAnswer)
                for each in answers
            ]
            take_in(name, machine, [one for space in every for one in space.candidates], found)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
