"""Completion scripts for bash, zsh and fish, written from the list of commands."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schirn.cli.completion import Command, Option, Values

_BASH = """\
# Completion of schirn for bash, written by: schirn completion bash
_schirn_offer() {
    local IFS=$'\\n' offered=()
    case $1 in
        list)
            case $current in
                *,*) offered=($(compgen -P "${current%%,*}," -W "$2" -- "${current##*,}")) ;;
                *) offered=($(compgen -W "$2" -- "$current")) ;;
            esac ;;
        words) offered=($(compgen -W "$2" -- "$current")) ;;
        files) offered=($(compgen -f -- "$current")); compopt -o filenames 2>/dev/null ;;
        folders) offered=($(compgen -d -- "$current")); compopt -o filenames 2>/dev/null ;;
    esac
    COMPREPLY+=("${offered[@]}")
}

_schirn() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command="" k
    COMPREPLY=()
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $previous == "=" ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((k = 1; k < COMP_CWORD; k++)); do
        case "$command/${COMP_WORDS[k]}" in
%(paths)s
        esac
    done
    case "$command $previous" in
%(options)s
    esac
    if [[ $current == -* ]]; then
        case $command in
%(flags)s
        esac
        return
    fi
    case $command in
%(places)s
    esac
}

complete -F _schirn schirn"""


def bash(commands: "list[Command]") -> str:
    """The script for bash."""
    # Words are split at line ends, so that those with spaces would stay whole.
    paths = [
        f'        "{c.path}/{name}") command="{f"{c.path} {name}".strip()}" ;;'
        for c in commands
        for name, _ in c.parts
    ]
    options = [
        f"        {'|'.join(_quoted(f'{c.path} {flag}') for flag in option.flags)})"
        f"{''.join(_bash_offers(option.values))} return ;;"
        for c in commands
        for option in c.options
        if option.values is not None
    ]
    flags = [
        f"            {_quoted(c.path)}) _schirn_offer words "
        f"{_bash_words(f for o in c.options for f in o.flags)} ;;"
        for c in commands
    ]
    places = [f"        {_quoted(c.path)}){_bash_places(c)} ;;" for c in commands]
    parts = {"paths": paths, "options": options, "flags": flags, "places": places}
    return _BASH % {name: "\n".join(lines) for name, lines in parts.items()}


def _bash_places(command: "Command") -> str:
    if command.parts:
        return f" _schirn_offer words {_bash_words(name for name, _ in command.parts)}"
    offers = [offer for values in command.places for offer in _bash_offers(values)]
    return "".join(dict.fromkeys(offers)) or " :"


def _bash_offers(values: "Values") -> Iterator[str]:
    if values.words:
        kind = "list" if values.comma else "words"
        yield f" _schirn_offer {kind} {_bash_words(values.words)};"
    if values.files:
        yield " _schirn_offer files;"
    if values.folders:
        yield " _schirn_offer folders;"


def _bash_words(words: Iterable[str]) -> str:
    return "$'" + "\\n".join(words) + "'"


def _quoted(text: str) -> str:
    """One word for the shell, whatever is in it."""
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(commands: "list[Command]") -> str:
    """The script for zsh."""
    lines = ["#compdef schirn", "# Completion of schirn for zsh, written by: schirn completion zsh"]
    for command in commands:
        lines += _zsh_function(command)
    # Called as a completion function by its own file, or read by source.
    lines += [
        'if [[ "$funcstack[1]" == "_schirn" ]]; then',
        '    _schirn "$@"',
        "else",
        "    compdef _schirn schirn",
        "fi",
    ]
    return "\n".join(lines)


def _zsh_function(command: "Command") -> Iterator[str]:
    name = "_".join(["_schirn", *command.path.split()])
    yield f"{name}() {{"
    yield "    local curcontext=$curcontext state line"
    yield "    typeset -A opt_args"
    specs = [spec for option in command.options for spec in _zsh_option(option)]
    if command.parts:
        specs += [_quoted("1: :->command"), _quoted("*:: :->rest")]
    else:
        specs += [_quoted(f":argument:{_zsh_action(values)}") for values in command.places]
    yield "    _arguments -C " + " ".join(f"\\\n        {spec}" for spec in specs)
    if command.parts:
        yield from _zsh_parts(command, name)
    yield "}"


def _zsh_parts(command: "Command", name: str) -> Iterator[str]:
    yield "    case $state in"
    yield "        command)"
    yield "            local -a parts=("
    for part, text in command.parts:
        yield f"                {_quoted(f'{part}:{text}')}"
    yield "            )"
    yield "            _describe command parts ;;"
    yield "        rest)"
    yield "            case $line[1] in"
    for part, _ in command.parts:
        yield f"                {part}) {name}_{part} ;;"
    yield "            esac ;;"
    yield "    esac"


def _zsh_option(option: "Option") -> Iterator[str]:
    text = option.help
    for special in "[]:":
        text = text.replace(special, f"\\{special}")
    for flag in option.flags:
        value = "" if option.values is None else f":value:{_zsh_action(option.values)}"
        yield _quoted(f"*{flag}[{text}]{value}")


def _zsh_action(values: "Values") -> str:
    words = " ".join(values.words)
    if values.comma:
        return f"_values -s , value {words}"
    if values.words and values.files:
        return f'{{_alternative "names:name:({words})" "files:file:_files"}}'
    if values.words:
        return f"({words})"
    return "_files -/" if values.folders else "_files" if values.files else " "


def fish(commands: "list[Command]") -> str:
    """The script for fish."""
    lines = [
        "# Completion of schirn for fish, written by: schirn completion fish",
        "complete -c schirn -f",
    ]
    for command in commands:
        lines += _fish_command(command)
    return "\n".join(lines)


def _fish_command(command: "Command") -> Iterator[str]:
    words = command.path.split()
    seen = [f"__fish_seen_subcommand_from {word}" for word in words]
    if command.parts:
        names = " ".join(name for name, _ in command.parts)
        seen.append(f"not __fish_seen_subcommand_from {names}")
    start = f"complete -c schirn -n {_fish_quoted('; and '.join(seen))}"
    for name, text in command.parts:
        yield f"{start} -a {name} -d {_fish_quoted(text)}"
    for option in command.options:
        names = " ".join(_fish_flag(flag) for flag in option.flags)
        # -x: a value and no files; -r: a value, files as well.
        exclusive = "r" if option.values is not None and option.values.files else "x"
        offers = "" if option.values is None else f" -{exclusive}{_fish_offers(option.values)}"
        yield f"{start} {names}{offers} -d {_fish_quoted(option.help)}"
    for values in dict.fromkeys(command.places):
        offers = _fish_offers(values)
        if offers:
            yield f"{start}{offers}"


def _fish_flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _fish_offers(values: "Values") -> str:
    words = f" -a {_fish_quoted(' '.join(values.words))}" if values.words else ""
    if values.folders:
        return words + " -a '(__fish_complete_directories)'"
    return words + (" -F" if values.files else "")


def _fish_quoted(text: str) -> str:
    """One word for fish, which knows two escapes inside quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: "dict[str, Callable[[list[Command]], str]]" = {"bash": bash, "zsh": zsh, "fish": fish}
