/** `troupe completion SHELL`: what a shell needs to complete command lines, made of the commands and options that there are. */
import { Argument, Command } from 'commander';
import { plainCommand } from '../command.ts';
import { print } from '../output.ts';

/** Words that may follow these words of a line. */
type Place = { readonly after: string; readonly words: readonly Word[] };
type Word = { readonly text: string; readonly about: string };

export function addTo(program: Command): void {
  plainCommand(
    program
      .command('completion')
      .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SHELLS)))
      .addHelpText(
        'after',
        '\nExamples:\n  source <(troupe completion bash)\n  source <(troupe completion zsh)\n  troupe completion fish > ~/.config/fish/completions/troupe.fish',
      ),
    async ([shell]) => {
      const { COMMANDS, addCommands } = await import('../commands.ts');
      const whole = new Command('troupe');
      for (const name of Object.keys(COMMANDS)) await addCommands(whole, [name]);
      print(SHELLS[shell as keyof typeof SHELLS](placesIn(whole)));
    },
  );
}

function placesIn(command: Command, after = ''): readonly Place[] {
  const commands = command.commands.map((one) => ({ text: one.name(), about: one.description() }));
  const options = command.options.map((one) => ({ text: one.long ?? one.flags, about: one.description }));
  return [
    { after, words: [...commands, ...options] },
    ...command.commands.flatMap((one) => placesIn(one, `${after} ${one.name()}`.trim())),
  ];
}

const textsOf = ({ words }: Place): string => words.map(({ text }) => text).join(' ');

/** The commands of the line so far, with the longest that has a place. */
const bash = (places: readonly Place[]): string => `_troupe() {
  local line="" word words
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do [[ $word == -* ]] || line="$line\${line:+ }$word"; done
  while :; do
    case "$line" in
${places.map((place) => `      "${place.after}") words="${textsOf(place)}"; break;;`).join('\n')}
      *" "*) line="\${line% *}";;
      *) line="";;
    esac
  done
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _troupe troupe`;

/** It takes what bash takes. */
const zsh = (places: readonly Place[]): string => `autoload -U +X bashcompinit && bashcompinit\n${bash(places)}`;

/** A line for each word. Arguments may stand before the options of a command, and nothing before the commands of a group. */
const fish = (places: readonly Place[]): string =>
  [
    'function __troupe_after\n  string join " " -- (string match -v -- "-*" (commandline -opc)[2..])\nend',
    ...places.flatMap(({ after, words }) => {
      const isGroup = words.some(({ text }) => !text.startsWith('--'));
      const pattern = isGroup ? `^${after}$` : `^${after}( |$)`;
      return words.map(({ text, about }) => {
        const what = text.startsWith('--') ? `-l ${text.slice(2)}` : `-a ${text}`;
        return `complete -c troupe -f -n '__troupe_after | string match -qr "${pattern}"' ${what} -d '${about.replace(/['\n\\]/g, ' ')}'`;
      });
    }),
  ].join('\n');

const SHELLS = { bash, zsh, fish };
