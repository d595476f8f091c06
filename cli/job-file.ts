/** The job of a schedule out of files of this machine: a plan with --plan, or any job with --job. */
import { readFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { planInput, setValue } from '../api/operations/plan/fields.ts';
import { got, TroupeError, unreadable } from '../errors.ts';
import { isRecord } from '../ingest/events/json.ts';
import type { Flags } from './command.ts';
import { say } from './output.ts';

export const addOptions = (command: Command): Command =>
  command
    .addOption(new Option('--plan <file>', 'plan to run; its content is stored'))
    .addOption(new Option('--job <file>', 'job to request: YAML or JSON with `kind` and `spec`; its content is stored'))
    .option(
      '--set <path=value>',
      String((planInput.set as { description?: string }).description),
      (text, before: string[] = []) => [...before, text],
    );

/** @throws TroupeError `usage` naming the flag or the file, `plan_invalid` */
export async function readFiles(flags: Flags): Promise<{ kind: string; spec: Record<string, unknown> }> {
  if ((flags.plan === undefined) === (flags.job === undefined))
    throw new TroupeError('usage', 'Missing --plan FILE or --job FILE; give exactly one.');
  if (flags.plan !== undefined) {
    const { planOfFile } = await import('../api/operations/plan/read.ts');
    const set = valuesIn(flags);
    const plan = await planOfFile(String(flags.plan), set);
    return { kind: 'plan', spec: { plan, ...(flags.set === undefined ? {} : { set }) } };
  }
  if (flags.set !== undefined)
    throw new TroupeError('usage', '--set sets values of a plan, so it needs --plan FILE; --job FILE has its own.');
  return jobOf(String(flags.job));
}

function valuesIn({ set = [] }: Flags): Readonly<Record<string, unknown>> {
  try {
    return Object.assign({}, ...(set as readonly string[]).map(setValue));
  } catch (error) {
    throw new TroupeError('usage', `--set ${(error as Error).message}.`, { field: '--set' });
  }
}

async function jobOf(file: string): Promise<{ kind: string; spec: Record<string, unknown> }> {
  const { parseYaml } = await import('../ingest/files/parse-yaml.ts');
  const text = await readFile(file, 'utf8').catch((cause) => {
    throw unreadable(`The job ${file}`, cause);
  });
  let written: unknown;
  try {
    written = parseYaml(text);
  } catch (cause) {
    const [why] = (cause as Error).message.split('\n', 1);
    throw new TroupeError('usage', `The job ${file} is neither YAML nor JSON: ${why}`, { cause });
  }
  if (!isRecord(written) || typeof written.kind !== 'string' || !isRecord(written.spec))
    throw new TroupeError('usage', `${file} should hold \`kind\` and \`spec\` of a job, but it holds ${got(written)}.`);
  const beside = Object.keys(written).filter((key) => key !== 'kind' && key !== 'spec');
  if (beside.length > 0) say(`${file}: ${beside.join(', ')} beside kind and spec has no effect.`);
  return { kind: written.kind, spec: written.spec };
}
