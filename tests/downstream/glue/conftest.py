"""A small GLUE folder: every official file format with two or three rows per file."""

import pytest

BOM = "\ufeff"
STS_B = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse"
    "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2"
)
MRPC_IDS = "\t#1 ID\t#2 ID\t#1 String\t#2 String"
QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
FILES = {
    "CoLA/train.tsv": 'gj04\t1\t\tHe said "it.\ngj04\t0\t*\tThe drank they.\n',
    "CoLA/dev.tsv": "gj04\t0\t*\tThey drank the pub.\n",
    "CoLA/test.tsv": "index\tsentence\n0\tBill whistled.\n1\tThe car honked.\n",
    "SST-2/train.tsv": 'sentence\tlabel\na " fine film \t1\nno wit \t0\n',
    "SST-2/dev.tsv": "sentence\tlabel\nlovely \t1\n",
    "SST-2/test.tsv": "index\tsentence\n0\tuneasy\n",
    "MRPC/train.tsv": f'{BOM}Quality{MRPC_IDS}\n1\t7\t8\tA man .\tOne " man .\n0\t9\t3\tB\tC\n',
    "MRPC/dev.tsv": f"{BOM}Quality{MRPC_IDS}\n0\t2\t4\tD\tE\n",
    "MRPC/test.tsv": f"index{MRPC_IDS}\n0\t1\t6\tF\tG\n",
    "STS-B/train.tsv": f"{STS_B}\tscore\n0\tg\tf\ty\to\tn\tn\tOne.\tTwo.\t5.000\n",
    "STS-B/dev.tsv": f"{STS_B}\tscore\n7\tg\tf\ty\to\tn\tn\tA.\tB.\t0.600\n",
    "STS-B/test.tsv": f"{STS_B}\n0\tg\tf\ty\to\tn\tn\tC.\tD.\n",
    "QQP/train.tsv": f"{QQP}\n5\t1\t2\tHow?\tWhy?\t1\n6\t3\t4\tWhere\nis it?\tWhen?\t0\n"
    "7\t5\t6\tWho?\tWhat?\t0\n",
    "QQP/dev.tsv": f"{QQP}\n9\t8\t7\tWhich?\tWhose?\t1\n",
    "QQP/test.tsv": "id\tquestion1\tquestion2\n0\tIs it?\tIs it not?\n",
    "MNLI/train.tsv": f"{MNLI}\tlabel1\tgold_label\n"
    "0\tp\tq\tg\ta\tb\tc\td\tOne.\tTwo.\tneutral\tneutral\n"
    "1\tp\tq\tg\ta\tb\tc\td\tSix.\tTen.\tentailment\tentailment\n",
    **{
        f"MNLI/dev_{kind}.tsv": f"{MNLI}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
        f"0\tp\tq\tg\ta\tb\tc\td\t{kind}.\tYes.\t-\t-\t-\t-\t-\tcontradiction\n"
        for kind in ("matched", "mismatched")
    },
    **{
        f"MNLI/test_{kind}.tsv": f"{MNLI}\n0\tp\tq\tg\ta\tb\tc\td\t{kind} test.\tNo.\n"
        for kind in ("matched", "mismatched")
    },
    "QNLI/train.tsv": "index\tquestion\tsentence\tlabel\n3\tWho?\tHe.\tentailment\n",
    "QNLI/dev.tsv": "index\tquestion\tsentence\tlabel\n5\tWho?\tRain.\tnot_entailment\n",
    "QNLI/test.tsv": "index\tquestion\tsentence\n0\tWhere?\tHere.\n",
    "RTE/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n",
    "RTE/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tC.\tD.\tentailment\n",
    "RTE/test.tsv": "index\tsentence1\tsentence2\n0\tE.\tF.\n",
    "WNLI/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\t1\n",
    "WNLI/dev.tsv": "index\tsentence1\tsentence2\tlabel\n0\tC.\tD.\t0\n",
    "WNLI/test.tsv": "index\tsentence1\tsentence2\n0\tE.\tF.\n",
    "AX/diagnostic.tsv": "index\tsentence1\tsentence2\n0\tThe cat sat.\tThe cat stood.\n",
}


@pytest.fixture
def glue_folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "glue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "glue"
