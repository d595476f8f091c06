/** The catalogue of methods on the command line: what there is, what one takes, and running one on data from a file. */
import { once } from 'node:events';
import { createReadStream, type ReadStream } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { loadConfig } from '../../config.ts';
import { countText, EXIT, got, TroupeError, unreadable } from '../../errors.ts';
import { MAX_RECORD_BYTES } from '../../ingest/events/json.ts';
import { OWN_METHODS } from '../../store/evaluate/methods/catalogue.ts';
import { findMethod, METHODS } from '../../store/evaluate/methods/find.ts';
import type { Method } from '../../store/evaluate/methods/method.ts';
import { runMethod } from '../../store/evaluate/methods/run.ts';
import { LOSS_METHODS } from '../../trainer/model/losses/catalogue.ts';
import { type Flags, plainCommand } from '../command.ts';
import { METHOD_EXAMPLES } from '../methods/method-examples.ts';
import { answerLines, jsonText, readInput } from '../methods/method-lines.ts';
import { judgeReads, judgeReadsText, methodFields, parameterRows, parametersOf } from '../methods/method-schema.ts';
import { paint, print, printJson, say, table } from '../output.ts';
import { loadOwn } from '../own-modules.ts';

/** The judge's methods and the trainer's losses: what can be run by name on data from a file. */
export const ALL_METHODS: readonly Method[] = [...METHODS, ...LOSS_METHODS];

/** These and those of the user's own files. */
async function allMethods(flags: Flags): Promise<readonly Method[]> {
  await loadOwn(loadConfig(flags, process.env));
  return [...OWN_METHODS, ...ALL_METHODS];
}

const KINDS = ['filter', 'score', 'reward', 'credit', 'process', 'blame', 'loss'] as const;

export function addTo(program: Command): void {
  const method = program
    .command('method')
    .addHelpText('after', '\nExamples:\n  troupe method list\n  troupe method show grpo_advantage');
  listCommand(method);
  showCommand(method);
  runCommand(method);
}

function listCommand(method: Command): void {
  plainCommand(
    method
      .command('list')
      .description('list every method: its name, kind, the teams it is for, and what it gives')
      .addOption(new Option('--kind <kind>', 'only methods of this kind').choices(KINDS))
      .addHelpText('after', '\nExamples:\n  troupe method list --kind credit\n  troupe method list --json'),
    async (_, flags) => {
      const rows = (await allMethods(flags))
        .filter(({ kind }) => flags.kind === undefined || flags.kind === kind)
        .map(described);
      if (flags.json) printJson({ methods: rows });
      else
        print(
          table(
            ['method', 'kind', 'for', 'result'],
            rows.map((m) => [m.name, m.kind, m.teams, m.summary]),
            Number.POSITIVE_INFINITY,
          ),
        );
    },
  );
}

function showCommand(method: Command): void {
  plainCommand(
    method
      .command('show')
      .description('show one method: its output, source, parameters, input and an example to paste')
      .argument('<name>')
      .addHelpText('after', '\nExamples:\n  troupe method show grpo_advantage\n  troupe method show gae --json'),
    async ([name], flags) => {
      const found = findMethod(name!, await allMethods(flags));
      const { limits, input } = found;
      const example = METHOD_EXAMPLES[found.name];
      if (flags.json)
        printJson({
          ...described(found),
          params: parametersOf(found),
          limits,
          input,
          ...(example !== undefined && { example: JSON.parse(example) }),
        });
      else print(shown(found, example));
    },
  );
}

function runCommand(method: Command): void {
  plainCommand(
    method
      .command('run')
      .description('run a method on JSON from standard input; parameters go into the same object as the data')
      .argument('[name]')
      .option(
        '--ndjson [file]',
        'many runs: a line {"method":…,"input":…} each, of the file or of standard input, answered by a line each',
      )
      .addHelpText(
        'after',
        `\nExamples:\n  echo '{"group":["q","q"],"reward":[1,0]}' | troupe method run grpo_advantage\n` +
          `  echo '{"method":"uct","input":{"q":0.5,"parent_visits":9,"child_visits":3,"c":1}}' | troupe method run --ndjson\n` +
          '  troupe method run --ndjson asked.ndjson > answered.ndjson\n' +
          '\nEach line that is not empty gets one line, in order: {"output":…}, or {"error":{"code","message"}} and the rest goes on.\n' +
          `Exit code 0 when every line was answered with an output, 3 when some were refused. A line may have ${MAX_RECORD_BYTES} bytes.`,
      ),
    async ([name], flags) => {
      if (flags.ndjson !== undefined)
        return runLines(name, flags.ndjson, await allMethods(flags), flags.quiet === true);
      if (name === undefined)
        throw new TroupeError('usage', 'Missing the name of a method (`troupe method list` lists them), or --ndjson.');
      const output = runMethod(findMethod(name, await allMethods(flags)), readInput(await buffer(process.stdin)));
      if (process.stdout.isTTY) printJson(output);
      else print(jsonText(output));
      return EXIT.done;
    },
  );
}

async function runLines(
  name: string | undefined,
  from: unknown,
  methods: readonly Method[],
  quiet: boolean,
): Promise<number> {
  if (name !== undefined)
    throw new TroupeError('usage', `With --ndjson each line names its method; remove ${got(name)}.`);
  let lines = 0;
  const refused: number[] = [];
  const chunks = typeof from === 'string' && from !== '-' ? await opened(from) : process.stdin;
  for await (const { line, text, answered } of answerLines(chunks, methods)) {
    lines++;
    if (!answered) refused.push(line);
    if (!process.stdout.write(`${text}\n`)) await once(process.stdout, 'drain');
  }
  if (refused.length === 0) return EXIT.done;
  if (!quiet) say(`${refused.length} of ${countText(lines, 'line')} refused, the first is line ${refused[0]}.`);
  return EXIT.refused;
}

async function opened(path: string): Promise<ReadStream> {
  const stream = createReadStream(path);
  try {
    await once(stream, 'open');
  } catch (cause) {
    throw unreadable(path, cause);
  }
  return stream;
}

const OVER = {
  episode: 'each episode',
  group: 'each group',
  report: 'each execution report',
  replay: 'each tree of steps',
  groups: 'whole groups, many at once',
  set: 'everything that is judged, at once',
} as const;

/** Over what the judge runs it; null for one that runs by hand only. */
const judgedOver = ({ judged }: Method): keyof typeof OVER | null =>
  judged ? (judged.over ?? (judged.scope ? 'set' : 'groups')) : null;

/** The row of a method in a list. */
const described = (method: Method) => {
  const { name, kind, teams = 'any', source, version, summary } = method;
  return { name, kind, teams, over: judgedOver(method), reads: judgeReads(method), source, version, summary };
};

function shown(method: Method, example: string | undefined): string {
  const { name, kind, version, summary, teams = 'any team', source } = method;
  const title = (text: string) => `\n${paint.bold(text)}`;
  const parameters = parameterRows(method);
  const lines = [
    `${name} (${kind}, version ${version})`,
    summary,
    `For: ${teams}`,
    `Source: ${source}`,
    `Judge reads: ${judgeReadsText(method)}`,
    ...(method.judged ? [`Judge runs it over: ${OVER[judgedOver(method)!]}`] : []),
  ];
  lines.push(
    title('Parameters'),
    parameters.length === 0 ? 'none' : table(['parameter', 'default', 'takes'], parameters),
    title('Input'),
    table(['field', 'takes', ''], methodFields(method)),
  );
  if (example !== undefined) {
    const output = jsonText(runMethod(method, JSON.parse(example)));
    const quoted = example.replaceAll("'", `'\\''`);
    lines.push(title('Example'), `printf %s '${quoted}' | troupe method run ${name}`, output);
  }
  return lines.join('\n');
}
