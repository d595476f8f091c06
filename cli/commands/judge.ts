/** Judging: run methods over episodes, list and try methods. */
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import { EXIT, got, TroupeError } from '../../errors.ts';
import { judge, type MethodAsked, resolveMethods, unjudged } from '../../store/judge.ts';
import { METHODS } from '../../store/methods/catalogue.ts';
import type { Method } from '../../store/methods/method.ts';
import { findMethod, runMethod } from '../../store/methods/run.ts';
import { projectAll } from '../../store/projector.ts';
import { LOSS_METHODS } from '../../trainer/losses/catalogue.ts';
import { plainCommand, projectCommand } from '../command.ts';
import { print, printJson, progressBar, table } from '../output.ts';

/** The judge's methods and the trainer's losses: what can be run by name on data from a file. */
const ALL_METHODS: readonly Method[] = [...METHODS, ...LOSS_METHODS];

/** Judged when nothing else is asked. */
const DEFAULT_METHODS: readonly MethodAsked[] = [
  { method: 'correctness_filter' },
  { method: 'agreement_score' },
  { method: 'grpo_advantage' },
];
const CHUNK = 1000;

export function judgeCommands(program: Command): void {
  projectCommand(
    program
      .command('judge')
      .description('run methods over closed episodes and write what they say beside the facts')
      .option('--methods <list>', 'names, with parameters in braces: grpo_advantage{"scale_std":false},drmas_advantage')
      .option('--episode <id...>', 'only these episodes and their groups')
      .option('--all', 'also episodes that did not change since they were judged')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe judge\n  troupe judge --methods correctness_filter,grpo_advantage\n  troupe judge --methods \'cosigned_rewards{"trust":0.3},floored_advantage{"reads":"cosigned_rewards"}\'',
      ),
    async ({ db, log, now }, _, flags) => {
      const methods = flags.methods ? parseMethods(String(flags.methods)) : DEFAULT_METHODS;
      resolveMethods(methods);
      await projectAll(db);
      const asked = flags.episode as string[] | undefined;
      const todo =
        asked ??
        (flags.all
          ? (
              await db.query<{ episode_id: string }>('select episode_id from facts.episodes where closed order by 1')
            ).rows.map((row) => row.episode_id)
          : await unjudged(db, methods, 10_000_000));
      const bar = progressBar('Judging', { quiet: flags.quiet === true || flags.json === true });
      const rows: Record<string, number> = {};
      for (let i = 0; i < todo.length; i += CHUNK) {
        const judged = await judge(db, log, { methods, episodes: todo.slice(i, i + CHUNK), now });
        for (const [name, count] of Object.entries(judged.rows)) rows[name] = (rows[name] ?? 0) + count;
        bar.update(Math.min(i + CHUNK, todo.length), todo.length);
      }
      bar.stop();
      await projectAll(db);
      if (flags.json) printJson({ episodes: todo.length, methods: methods.map((m) => m.method), rows });
      else
        print(
          todo.length === 0
            ? 'Nothing to judge: no closed episode changed since.'
            : `${todo.length} episodes judged: ${Object.entries(rows)
                .map(([name, n]) => `${n} ${name}`)
                .join(', ')}.`,
        );
      return EXIT.done;
    },
  );

  const method = program.command('method').description('the catalogue of methods: list, show, run');
  plainCommand(
    method.command('list').description('every method: name, kind, what it needs, source'),
    async (_, flags) => {
      const rows = ALL_METHODS.map(({ name, kind, needs, source, version, summary }) => ({
        name,
        kind,
        needs,
        source,
        version,
        summary,
      }));
      if (flags.json) printJson({ methods: rows });
      else
        print(
          table(
            ['method', 'kind', 'needs', 'source'],
            rows.map((m) => [m.name, m.kind, m.needs, m.source]),
          ),
        );
      return EXIT.done;
    },
  );
  plainCommand(
    method
      .command('show')
      .description('one method: what it says, parameters, input')
      .argument('<name>')
      .addHelpText('after', '\nExample:\n  troupe method show grpo_advantage'),
    async ([name], flags) => {
      const { run: _, ...facts } = findMethod(name!, ALL_METHODS);
      if (flags.json) printJson(facts);
      else {
        print(
          `${facts.name} (${facts.kind}, version ${facts.version})\n${facts.summary}\nSource: ${facts.source}\nNeeds: ${facts.needs}`,
        );
        print(`Parameters: ${JSON.stringify(facts.params)}\nInput: ${JSON.stringify(facts.input)}`);
      }
      return EXIT.done;
    },
  );
  plainCommand(
    method
      .command('run')
      .description('run a method on JSON from standard input; parameters stand beside the data')
      .argument('<name>')
      .addHelpText(
        'after',
        `\nExample:\n  echo '{"group":["q","q"],"reward":[1,0]}' | troupe method run grpo_advantage`,
      ),
    async ([name]) => {
      const found = findMethod(name!, ALL_METHODS);
      const input = await text(process.stdin);
      let value: unknown;
      try {
        value = JSON.parse(input);
      } catch (cause) {
        throw new TroupeError('method_input', `The input is not JSON: ${(cause as Error).message}.`, { cause });
      }
      printJson(runMethod(found, value));
      return EXIT.done;
    },
  );
}

/** `a,b{"x":1}`: commas inside braces belong to the parameters; `reads` names the reward method a credit method takes. */
export function parseMethods(list: string): MethodAsked[] {
  const parts: string[] = [];
  let depth = 0;
  let part = '';
  for (const c of list) {
    if (c === '{') depth++;
    if (c === '}') depth--;
    if (c === ',' && depth === 0) {
      parts.push(part);
      part = '';
    } else part += c;
  }
  parts.push(part);
  return parts.map((item) => {
    const brace = item.indexOf('{');
    if (brace < 0) return { method: item.trim() };
    try {
      const { reads, ...params } = JSON.parse(item.slice(brace)) as Record<string, unknown>;
      return { method: item.slice(0, brace).trim(), params, ...(typeof reads === 'string' ? { reads } : {}) };
    } catch (cause) {
      throw new TroupeError('usage', `The parameters of ${got(item)} are not JSON: ${(cause as Error).message}.`, {
        cause,
      });
    }
  });
}
