"""The verb pretrain: records in, a model folder out."""

from bert_keras.cli.tasks import AddVerb, add_devices, add_teacher, print_scores


def add_pretrain(verb: AddVerb) -> None:
    sub = verb(
        "pretrain",
        _pretrain,
        "Train on records by a named recipe; the same command continues an interrupted run.",
        "bert-keras pretrain tiny-hour --records records --output runs/tiny\n"
        "  bert-keras pretrain distilbert --records records --from student --teacher bert-base "
        "\\\n    --output runs/distil",
    )
    sub.add_argument("recipe", metavar="RECIPE", help="see PRETRAIN in bert_keras/runs/recipes.py; "
                     "a wrong name lists them")  # fmt: skip
    sub.add_argument("--set", nargs="+", default=(), dest="changes", metavar="FIELD=VALUE",
                     help="change the recipe, such as seed=2 num_steps=1000")  # fmt: skip
    sub.add_argument("--records", required=True, metavar="DIR", help="record files and their "
                     "vocabulary, as bert-tfrecords build writes them")  # fmt: skip
    sub.add_argument("--from", dest="start", metavar="DIR", help="go on from a checkpoint of any "
                     "format (see convert), at its step where it has a training state")  # fmt: skip
    add_teacher(sub)
    sub.add_argument("--output", metavar="DIR", help="where the run goes")
    sub.add_argument("--profile", metavar="FIRST:LAST", help="look where the time of these steps "
                     "goes, in TensorBoard, such as 20:25")  # fmt: skip
    sub.add_argument("--dry-run", action="store_true", help="take ten steps, tell what the run "
                     "takes, write nothing")  # fmt: skip
    add_devices(sub)


def _pretrain(arguments) -> None:
    from bert_keras.errors import InputError
    from bert_keras.runs.changes import changed
    from bert_keras.runs.distillation import Distillation
    from bert_keras.runs.forecast import forecast
    from bert_keras.runs.pretrain import pretrain
    from bert_keras.runs.recipes import PRETRAIN, named_recipe
    from bert_keras.training.tensorboard.performance import steps_to_profile

    recipe = named_recipe(PRETRAIN, arguments.recipe)
    teacher = arguments.teacher and Distillation.of_pretraining(arguments.teacher)
    recipe, teacher = changed(recipe, teacher, changes=arguments.changes)
    given = {"records": arguments.records, "start": arguments.start, "distillation": teacher}
    if arguments.dry_run:
        print(forecast(recipe, **given))
        return
    if arguments.output is None:
        raise InputError("--output DIR is missing; name a new folder, or ask for a --dry-run")
    if arguments.profile:
        given["profile"] = steps_to_profile(arguments.profile)
    print_scores(pretrain(recipe, output=arguments.output, **given), arguments.output)
