"""The commands and options of `iac-code`, and which module runs each. Modules are imported when run."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from shared.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPILOG = """\
Editors start `iac-code acp` and speak the Agent Client Protocol over its stdin and stdout.

environment:
  ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN   credentials (or: iac-code login)
  ANTHROPIC_BASE_URL                        another server that speaks the Anthropic API
  IAC_CODE_MODEL                            the model of new sessions; without credentials: offline
  IAC_CODE_CONFIG_DIR                       sessions, settings and logs; default ~/.iac-code
"""


class _Parser(argparse.ArgumentParser):
    """Ends with 1 on wrong usage: 2 means "the model refused" in `ask`."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(1, f"{self.prog}: {message}\n")


def run(argv: Sequence[str]) -> int:
    """Run the command that `argv` (without the program's name) asks for; returns the exit code."""
    parser = _build()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help(sys.stderr)
        return 1
    return _dispatch(args)


def _dispatch(args: argparse.Namespace) -> int:
    match args.command:
        case "ask":
            from supervisor.cli import ask

            return ask.run(ask.Options(**_fields(args)))
        case "chat":
            from supervisor.cli import chat

            return chat.run(chat.Options(**_fields(args)))
        case "sessions":
            from supervisor.cli import sessions

            match args.action:
                case "list":
                    return sessions.list_sessions(args.cwd)
                case "show":
                    return sessions.show(args.id, as_json=args.json)
                case "close":
                    return sessions.close(args.id)
                case _:
                    return sessions.remove(args.id)
        case "ps":
            from supervisor.cli import ps

            return ps.run(as_json=args.json)
        case "logs":
            from supervisor.cli import logs

            return logs.run(args.session, follow=args.follow)
        case "serve":
            from supervisor import serve

            return serve.main()
        case "stop":
            from supervisor.cli import stop

            return stop.stop()
        case "models":
            from supervisor.cli import models

            return models.run()
        case "doctor":
            from supervisor.cli import doctor

            return doctor.run()
        case "mcp":
            from supervisor.cli import mcp

            if args.action == "list":
                return mcp.list_servers(as_json=args.json)
            return mcp.test(args.names, as_json=args.json)
        case "login" | "acp":  # of `acp` only `--login` comes here, the agent itself is started by `main`
            from supervisor.cli import credentials

            return credentials.login()
        case _:
            from supervisor.cli import credentials

            return credentials.logout()


def _fields(args: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(args).items() if name != "command"}


def _build() -> _Parser:
    parser = _Parser(
        prog="iac-code",
        description="A coding agent for editors: every session in a process of its own.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"iac-code {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    acp = commands.add_parser("acp", help="the agent, over stdio, for an editor to start")
    acp.add_argument("--dialect", choices=("acp", "both"), help="acp: the bare standard; both: the default")

    acp.add_argument("--login", action="store_true", help="for an editor's terminal: the same as `login`")
    own = acp.add_mutually_exclusive_group()
    own.add_argument("--own", action="store_true", help="a private agent, though a shared one runs")
    own.add_argument("--shared", action="store_true", help="start the shared agent if none runs")

    commands.add_parser("serve", help="the shared agent of this user, for many clients")
    commands.add_parser("stop", help="end the shared agent, saved and clean")

    ask = commands.add_parser("ask", help="one prompt, answered on the terminal")
    ask.add_argument("text", nargs="?", help="the prompt; read from stdin if it is missing")
    _conversation(ask)
    ask.add_argument("--json", action="store_true", help="print the updates as they came, one a line")
    ask.epilog = (
        "exit code: 0 done, 1 error, 2 refused, 3 cut at max_tokens, 4 too many requests, 130 cancelled"
    )

    chat = commands.add_parser("chat", help="a conversation on the terminal")
    _conversation(chat)

    sessions = commands.add_parser("sessions", help="what is stored")
    actions = sessions.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="all sessions, newest first")
    listing.add_argument("--cwd", metavar="DIR", help="only those of this folder")
    show = actions.add_parser("show", help="a session's conversation")
    show.add_argument("id")
    show.add_argument("--json", action="store_true", help="the records as they are stored, one a line")
    close = actions.add_parser("close", help="close a session that an agent has open, for all its clients")
    close.add_argument("id")
    remove = actions.add_parser("rm", help="delete a session")
    remove.add_argument("id")

    ps = commands.add_parser("ps", help="what is running: agents, sessions, workers")
    ps.add_argument("--json", action="store_true")

    logs = commands.add_parser("logs", help="the log of all processes")
    logs.add_argument("session", nargs="?", metavar="SESSION", help="only lines of this session")
    logs.add_argument("-f", "--follow", action="store_true", help="go on with what is being logged")

    commands.add_parser("doctor", help="whether all is well here, and what protection is active")
    commands.add_parser("models", help="the models that can be chosen")
    mcp = commands.add_parser("mcp", help="the MCP servers of your settings")
    doing = mcp.add_subparsers(dest="action", metavar="ACTION", required=True)
    servers = doing.add_parser("list", help="what is configured")
    servers.add_argument("--json", action="store_true", help="one object a line")
    test = doing.add_parser("test", help="start them: how long it took, and what they offer")
    test.add_argument("names", nargs="*", metavar="NAME", help="only these")
    test.add_argument("--json", action="store_true", help="one object a line")
    commands.add_parser("login", help="store an API key (asked for, or read from stdin)")
    commands.add_parser("logout", help="forget the stored API key")
    return parser


def _conversation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="ID", help="go on with this session")
    parser.add_argument("--cwd", metavar="DIR", help="the folder to work in; default: the current one")
    parser.add_argument("--model", help="see `iac-code models`")
    parser.add_argument("--mode", help="the permission mode, for example default or plan")
    parser.add_argument("--yes", action="store_true", help="allow every tool call unasked")
