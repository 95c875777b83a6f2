"""The verb that repeats the paper's tables: reproduce."""

from bert_keras.cli.tasks import AddVerb, add_devices


def add_reproduce(verb: AddVerb) -> None:
    sub = verb(
        "reproduce",
        _reproduce,
        "Repeat a table or figure of the paper, pretraining included; the same command continues.",
        "bert-keras reproduce table5 --scale tiny --data data --output table5\n"
        "  bert-keras reproduce c2 --scale paper --data data --output c2 --dry-run",
    )
    sub.add_argument("table", metavar="TABLE", help="table5 (what the pretraining tasks give), "
                     "table6 (what size gives), c1 (what steps give) or c2 (what stands in place "
                     "of a piece to predict)")  # fmt: skip
    sub.add_argument("--scale", default="tiny", metavar="SCALE", help="tiny: about an hour on two "
                     "cores (default); paper: for owners of GPUs or TPUs")  # fmt: skip
    sub.add_argument("--data", required=True, metavar="DIR", help="corpus/*.txt, and of glue/MNLI, "
                     "glue/QNLI, glue/MRPC, glue/SST-2, squad, ner/conll2003 what there "
                     "is")  # fmt: skip
    sub.add_argument("-o", "--output", metavar="DIR", help="where everything goes")
    sub.add_argument("--dry-run", action="store_true", help="take a few steps of each kind, tell "
                     "what is run and how long it takes, leave nothing")  # fmt: skip
    add_devices(sub)


def _reproduce(arguments) -> None:
    from bert_keras.errors import InputError
    from bert_keras.experiments.experiments import EXPERIMENTS, one_of
    from bert_keras.experiments.scales import SCALES

    experiment = one_of(EXPERIMENTS, arguments.table, what="table")
    scale = one_of(SCALES, arguments.scale, what="scale")
    if arguments.dry_run:
        from bert_keras.experiments.plan import plan

        print(plan(experiment, scale, data=arguments.data))
        return
    if arguments.output is None:
        raise InputError("--output DIR is missing; name a new folder, or ask for a --dry-run")
    from bert_keras.experiments.run import reproduce

    reproduce(experiment, scale, data=arguments.data, output=arguments.output)
    print(f"report: {arguments.output}/report.html and report.md")
