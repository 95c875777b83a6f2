from bert_keras.progress import progress


def test_a_log_gets_lines_instead_of_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("bert_keras.progress._LOG_SECONDS", 0)
    with progress(stage="count", unit="B", total=2000, initial=500) as bar:
        bar.update(500)
        bar.update(1000)
    output = capsys.readouterr().err
    assert "\r" not in output
    lines = output.splitlines()
    assert all(line.startswith("count") for line in lines)
    assert "500/2.00k" in lines[0]
    assert "2.00k/2.00k" in lines[-1]
    assert all(line.strip() for line in lines)


def test_a_log_gets_the_last_line_of_a_short_stage(capsys):
    for _ in progress(range(3), stage="count", unit="B"):
        pass
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("count")
    assert "3.00/3.00" in line


def test_a_log_gets_one_line_of_a_short_stage_of_unknown_length(capsys):
    for _ in progress(iter(range(3)), stage="count", unit="B"):
        pass
    (line,) = capsys.readouterr().err.splitlines()
    assert "3.00 B" in line


def test_a_stage_without_items_has_no_bar(capsys):
    with progress(stage="count", unit="B", total=0):
        pass
    assert capsys.readouterr().err == ""


def test_a_short_nested_stage_leaves_no_line(capsys):
    with progress(stage="outer", unit="B", total=2) as bar:
        for _ in progress(range(3), stage="inner", unit="B", leave=False):
            bar.update(0)
        bar.update(2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("outer")
