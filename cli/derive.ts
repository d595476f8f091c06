/**
 * Commands made of operations: `schedule.pause` is `troupe schedule pause NAME --reason TEXT`. A field of the input is an option of its
 * name, or what the declaration says about how it is written.
 */

import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { type Command, Option } from 'commander';
import type { TObject, TSchema } from 'typebox';
import { operationsOf } from '../api/operations/catalogue.ts';
import { nounOf, verbOf } from '../api/operations/names.ts';
import { type ChangeContext, type Operation, type ReadContext, writingOf } from '../api/operations/operation.ts';
import { inputOf, perform } from '../api/operations/perform.ts';
import { performForBytes } from '../api/operations/result-bytes.ts';
import { resultField } from '../api/operations/route.ts';
import { meantBy, read } from '../document.ts';
import { EXIT, got, TroupeError, unreadable } from '../errors.ts';
import { homeAt } from '../store/server/home.ts';
import { type Flags, plainCommand, untilInterrupted, who } from './command.ts';
import { answer, paint, progressBar, remark, say, table } from './output.ts';
import { VERSION } from './version.ts';

/** A field of an input; of a map with known names each of them is one. */
type Field = { readonly path: readonly string[]; readonly schema: TSchema & Shape; readonly required: boolean };
type Shape = {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly minimum?: number;
};

/** Fields that are read from several files. */
const JOB_FILES = () => import('./job-file.ts');

/** Adds the commands of a noun. */
export async function addOperations(program: Command, noun: string): Promise<Command> {
  const group = program.command(noun);
  const operations = await operationsOf(noun);
  for (const operation of operations) await addOperation(group, operation);
  if (operations.some((one) => verbOf(one) === '')) return group;
  const lines = operations.flatMap((one) => one.examples.slice(0, 1).map((example) => `  ${lineOf(one, example)}`));
  return group.addHelpText('after', `\nExamples:\n${lines.join('\n')}`);
}

async function addOperation(group: Command, operation: Operation): Promise<void> {
  const { about, notes, changes, alone } = operation;
  const verb = verbOf(operation);
  const fields = fieldsOf(operation.input);
  const command = verb === '' ? group : group.command(verb, { isDefault: verb === 'list' || verb === 'start' });
  command.description(about);
  // A word after the noun that is no verb would be an argument of its list.
  if (verb === 'list')
    command.allowExcessArguments().hook('preAction', (_, { args, registeredArguments }) => {
      if (args.length > registeredArguments.length)
        group.error(
          `error: unknown command '${args[0]}'.${meantBy(
            args[0],
            group.commands.map((one) => one.name()),
          )}`,
        );
    });
  for (const { path, schema, required } of fields) {
    const { position, file, repeated, value } = writingOf(schema);
    const [name] = path as [string];
    if (file === 'stdin') continue;
    if (file === 'job') (await JOB_FILES()).addOptions(command);
    else if (!position) command.addOption(optionOf({ path, schema, required }));
    else {
      const text = `${value ?? name}${schema.type === 'array' || repeated ? '...' : ''}`;
      command.argument(required ? `<${text}>` : `[${text}]`, schema.description);
    }
  }
  if (changes && alone !== true)
    command.addOption(new Option('--by <who>', 'who does it (default: the user of this machine)'));
  if (operation.confirm) command.addOption(new Option('--yes', 'do not ask for confirmation'));
  if (operation.cuts) command.addOption(new Option('--full', 'print texts in full'));
  const examples = operation.examples.map((example) => `  ${lineOf(operation, example)}`).join('\n');
  command.addHelpText('after', `${notes === undefined ? '' : `\n${notes}\n`}\nExamples:\n${examples}`);
  plainCommand(command, async (args, flags) => {
    const input = await inputFrom(operation, fields, args, flags);
    if (flags.json && operation.prints?.(input))
      throw new TroupeError('usage', 'What is printed as it is does not go with --json; give one of them.');
    return withOperationContext(operation, input, flags, async (context) => {
      if (!input.dry_run && !flags.yes) await confirmed(operation, context, input);
      if (flags.json && isToPrint(operation, input)) return printLines(operation, context, input);
      if (flags.json && operation.pages) {
        const { printAsOne } = await import('./pages-as-one.ts');
        return printAsOne(pagesOf(operation, context, input), context.home);
      }
      let code: number = EXIT.done;
      let goesOn = false;
      for await (const output of operation.pages
        ? pagesOf(operation, context, input)
        : [await showing(operation, context, input, flags)]) {
        await show(operation, output, flags, goesOn);
        goesOn = true;
        code = operation.exit?.(output) ?? EXIT.done;
      }
      return code;
    });
  });
}

async function show(operation: Operation, output: unknown, flags: Flags, goesOn: boolean): Promise<void> {
  const text = await operation.text();
  const printer = { paint, table, say: flags.quiet ? () => {} : say, full: flags.full === true, goesOn };
  answer(flags, output, () => text(output, printer));
  for (const warning of (output as { warnings?: readonly string[] }).warnings ?? [])
    remark({ ...flags, quiet: false }, warning);
}

/** All pages from the first one asked for. */
async function* pagesOf(operation: Operation, context: ChangeContext, input: object): AsyncGenerator<object> {
  let page = (await perform(operation, context, input)) as { readonly next: string | null };
  yield page;
  while (page.next !== null) {
    page = (await perform(operation, context, { ...input, after: page.next })) as typeof page;
    yield page;
  }
}

/** @throws TroupeError `usage` where a person has not agreed to what cannot be undone */
async function confirmed(operation: Operation, context: ChangeContext, input: Readonly<Record<string, unknown>>) {
  if (operation.confirm === undefined) return;
  const question = (await operation.confirm())(await perform(operation, context, { ...input, dry_run: true }));
  if (question === null) return;
  const { agreed } = await import('./agreed.ts');
  const word = nounOf(operation);
  if (await agreed(`${question} Type ${word} to go on: `, word)) return;
  throw new TroupeError('usage', `Nothing was done. ${question} Pass --yes to confirm.`);
}

/** Whether it writes lines, and no file is named for them. */
function isToPrint(operation: Operation, input: Readonly<Record<string, unknown>>): boolean {
  const written = resultField(operation);
  if (written?.kind !== 'result' || input[written.field] !== undefined) return false;
  return !writingOf(operation.input.properties[written.field]!).position;
}

/** Its lines of JSON as one list. */
async function printLines(operation: Operation, context: ChangeContext, given: object): Promise<number> {
  const { output, result } = await performForBytes(operation, context, { allowed: operation, given });
  const write = async (text: string) => {
    if (!process.stdout.write(text, 'latin1')) await once(process.stdout, 'drain');
  };
  let before = '[\n';
  let bytes = 0;
  for await (const part of result) {
    const text = part.toString('latin1');
    await write(before + text.replace(/\n$/, '').replaceAll('\n', ',\n'));
    before = text.endsWith('\n') ? ',\n' : '';
    bytes += part.length;
  }
  await write(bytes === 0 ? '[]\n' : '\n]\n');
  return operation.exit?.(output) ?? EXIT.done;
}

/** Long work shows a bar, and ends with the first Ctrl-C, once a step of it that cannot be stopped is done. */
async function showing(
  operation: Operation,
  context: ChangeContext,
  input: Readonly<Record<string, unknown>>,
  flags: Flags,
): Promise<unknown> {
  if (operation.long === undefined) return perform(operation, context, input);
  const bar = progressBar(operation.long, flags);
  const signal = untilInterrupted();
  const progress: ReadContext['progress'] = (...step) => {
    bar.update(...step);
    // The library has started this.
    if (process.connected) process.send?.(step);
  };
  const watched = { ...context, progress, say: (text: string) => remark(flags, text), signal };
  return perform(operation, watched, input).finally(bar.stop);
}

/** What reads alone does not load what the log needs. */
async function withOperationContext<T>(
  { alone, changes }: Operation,
  input: Readonly<Record<string, unknown>>,
  flags: Flags,
  work: (context: ChangeContext) => Promise<T>,
): Promise<T> {
  if (alone === true || alone?.(input)) {
    const [{ loadConfig }, { loadOwn }] = await Promise.all([import('../config.ts'), import('./own-modules.ts')]);
    const config = loadConfig(flags, process.env);
    await loadOwn(config);
    const asked: Partial<ChangeContext> = {
      ...{ by: who(flags), env: process.env, version: VERSION, isHere: true, now: () => new Date() },
      ...{ settings: config, home: homeAt(config.home), progress: () => {}, signal: new AbortController().signal },
      server: async () => {
        const { serverOf } = await import('./database.ts');
        return { ...serverOf(config), ...(config.origins.project === 'default' ? {} : { project: config.project }) };
      },
      inProject: async (ask) => {
        if (config.database_url === null && !existsSync(homeAt(config.home).data)) return null;
        const { operationContext, withContext } = await import('./context.ts');
        return withContext(flags, (context) => operationContext(context, who(flags)).inProject(ask));
      },
    };
    // An operation that needs no project asks for no more.
    return work(asked as ChangeContext);
  }
  if (changes) {
    const { enduring, operationContext, withContext } = await import('./context.ts');
    return withContext(flags, (context) => work(operationContext(enduring(context), who(flags))));
  }
  const { patientReads, serverOf, withDatabase } = await import('./database.ts');
  return withDatabase(flags, (opened) => {
    const catchUp = async () => {
      const { withLog } = await import('./context.ts');
      return withLog(opened, (context) => context.catchUp());
    };
    const { database, config } = opened;
    const context: ReadContext = {
      ...opened,
      db: patientReads(opened),
      // Where the server lets no login be made, SQL is held to reading by its transaction alone.
      reader: async () => (await opened.reader()) ?? opened.db,
      by: who(flags),
      env: process.env,
      project: database.project,
      settings: config,
      server: async () => ({ ...serverOf(config), project: database.project }),
      inProject: async (ask) => {
        await catchUp();
        return ask(opened.db);
      },
      home: homeAt(config.home),
      version: VERSION,
      catchUp,
      topic: async () => {
        const { topicOf, withLog } = await import('./context.ts');
        return withLog(opened, topicOf);
      },
      progress: () => {},
      say: () => {},
      signal: new AbortController().signal,
    };
    // An operation that changes nothing asks for no more.
    return work(context as ChangeContext);
  });
}

function fieldsOf({ properties, ...rest }: TObject, above: readonly string[] = []): readonly Field[] {
  const required: readonly string[] = rest.required ?? [];
  return Object.entries(properties).flatMap(([name, schema]): readonly Field[] => {
    const path = [...above, name];
    const { parse, file } = writingOf(schema);
    if (parse === undefined && file === undefined && 'properties' in schema) return fieldsOf(schema as TObject, path);
    return [{ path, schema, required: above.length === 0 && required.includes(name) }];
  });
}

const kebab = (text: string): string => text.replaceAll('_', '-');
/** What is true unless it is said is written as `--no-NAME`. */
const flagOf = ({ path, schema }: Pick<Field, 'path' | 'schema'>): string =>
  `${schema.default === true ? 'no-' : ''}${writingOf(schema).flag ?? kebab(path.join('-'))}`;

function optionOf(field: Field): Option {
  const { schema, required } = field;
  const { short, value = schema.type === 'integer' || schema.type === 'number' ? 'n' : (field.path.at(-1) ?? '') } =
    writingOf(schema);
  const { text = String } = writingOf(schema) as { text?: (value: unknown) => string };
  const name = `${short === undefined ? '' : `-${short}, `}--${flagOf(field)}`;
  const otherwise =
    schema.default === undefined || typeof schema.default === 'boolean' ? '' : ` (default: ${text(schema.default)})`;
  const option = new Option(
    schema.type === 'boolean' ? name : `${name} <${kebab(value)}>`,
    `${schema.description ?? ''}${otherwise}`,
  );
  if (required) option.makeOptionMandatory();
  if (schema.enum !== undefined) option.choices(schema.enum);
  else if (writingOf(schema).repeated || schema.type === 'array')
    option.argParser((written: string, before: readonly string[] = []) => [...before, written]);
  return option;
}

/** The input of an operation as it was written. @throws TroupeError `usage` naming the option */
async function inputFrom(
  operation: Operation,
  fields: readonly Field[],
  args: readonly string[],
  flags: Flags,
): Promise<Readonly<Record<string, unknown>>> {
  const input: Record<string, unknown> = {};
  const files = new Map<string, string>();
  let position = 0;
  for (const field of fields) {
    const { path, schema } = field;
    const { position: isPosition, file, folderOf, repeated } = writingOf(schema);
    const put = (value: unknown): void => {
      if (value === undefined) return;
      const into = path.slice(0, -1).reduce<Record<string, unknown>>((map, name) => {
        map[name] ??= {};
        return map[name] as Record<string, unknown>;
      }, input);
      into[path.at(-1)!] = value;
    };
    if (file === 'stdin') put(await (await import('./stdin.ts')).readStdin());
    else if (file === 'job') put(await (await JOB_FILES()).readFiles(flags));
    else if (isPosition && repeated) put(valueIn(path[0]!, schema, args.slice(position)));
    else if (isPosition && schema.type === 'array')
      put(
        args.slice(position).length === 0
          ? undefined
          : args
              .slice(position)
              .map((text) =>
                valueIn(
                  path[0]!,
                  { ...schema, ...(schema as unknown as { items: Shape }).items } as Field['schema'],
                  text,
                ),
              ),
      );
    else {
      const written = isPosition ? args[position++] : flags[optionOf(field).attributeName()];
      if (written !== undefined && file === 'document') {
        put(await documentIn(field, String(written)));
        files.set(path[0]!, String(written));
      } else if (written !== undefined && writingOf(schema).ownFormat) put(await formatAsked(String(written), flags));
      else if (written !== undefined) put(valueIn(isPosition ? path[0]! : `--${flagOf(field)}`, schema, written));
      else if (folderOf !== undefined && files.has(folderOf)) put(dirname(files.get(folderOf)!));
    }
  }
  return inputOf(operation, input);
}

/** The name of a format, which may be one of the user's own. */
async function formatAsked(given: string, flags: Flags): Promise<string> {
  const [{ loadConfig }, { formatIn }] = await Promise.all([import('../config.ts'), import('./own-modules.ts')]);
  return formatIn(given, loadConfig(flags, process.env));
}

/** The document of a file, `-` standard input. @throws TroupeError `not_found`, `usage` naming the file */
async function documentIn({ path, schema }: Field, file: string): Promise<unknown> {
  const [{ parseYaml }, { readFile }, { text }] = await Promise.all([
    import('../ingest/files/parse-yaml.ts'),
    import('node:fs/promises'),
    import('node:stream/consumers'),
  ]);
  const called = file === '-' ? `The ${path.join(' ')}` : `The ${path.join(' ')} ${file}`;
  const written = await (file === '-' ? text(process.stdin) : readFile(file, 'utf8')).catch((cause) => {
    const { code, message } = unreadable(called, cause);
    const hint = writingOf(schema).hint?.(file);
    throw new TroupeError(code, message, { cause, ...(hint === undefined ? {} : { hint }) });
  });
  try {
    return parseYaml(written);
  } catch (cause) {
    const [why] = (cause as Error).message.split('\n', 1);
    throw new TroupeError('usage', `${called} is neither YAML nor JSON: ${why}`, { cause });
  }
}

/** As people write it: 20, 0.5, .5, 2e-3. */
const NUMBER = /^-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i;

/** The value of a field, from its text. */
function valueIn(name: string, schema: Field['schema'], written: unknown): unknown {
  if (typeof written === 'boolean') return written;
  const { parse, repeated, text } = writingOf(schema);
  const refused = (why: string, came: unknown) =>
    new TroupeError('usage', `${name} ${why}, but it is ${got(came)}.`, { field: name, got: got(came) });
  const parsed = [written].flat().map((one) => {
    try {
      if (parse !== undefined) return parse(String(one));
    } catch (error) {
      throw error instanceof TroupeError ? error : refused((error as Error).message, one);
    }
    return /^(integer|number)$/.test(schema.type ?? '') && NUMBER.test(String(one)) ? Number(one) : one;
  });
  const value = repeated ? Object.assign({}, ...parsed) : Array.isArray(written) ? parsed.flat() : parsed[0];
  try {
    return read(schema, value, { called: name });
  } catch (error) {
    const { expected = '' } = (error as TroupeError).detail;
    const shown = text === undefined ? expected : expected.replace(/\d+$/, (n) => text(Number(n) as never));
    throw refused(
      `should ${shown.startsWith('one of') ? 'have ' : ''}${shown}`,
      parsed.length === 1 ? [written].flat()[0] : written,
    );
  }
}

/** Each field with its option and its meaning, for pages. */
export const optionsOf = ({ input }: Operation): readonly (readonly string[])[] =>
  fieldsOf(input).map(({ path, schema, required }) => {
    const { position, file } = writingOf(schema);
    const option = optionOf({ path, schema, required });
    const written =
      file === 'job'
        ? '`--job <file>` or `--plan <file>`'
        : file === 'stdin'
          ? 'standard input'
          : position
            ? 'argument'
            : `\`${option.flags}\``;
    return [`\`${path.join('.')}\`${required ? ', required' : ''}`, written, option.description];
  });

/** The words of the command line of an input, after `troupe`. */
export function wordsOf(operation: Operation, input: Readonly<Record<string, unknown>>): string[] {
  const words = fieldsOf(operation.input).flatMap(({ path, schema }) => {
    const value = path.reduce<unknown>((map, name) => (map as Record<string, unknown> | undefined)?.[name], input);
    const { position, file, repeated } = writingOf(schema);
    const flag = `--${flagOf({ path, schema })}`;
    if (value === undefined || value === (schema.default === true)) return [];
    if (file === 'stdin') return [];
    if (file !== undefined) return [...(position ? [] : [flag]), `${file === 'job' ? file : path[0]}.yaml`];
    if (repeated)
      return Object.entries(value as object).flatMap(([name, one]) => [...(position ? [] : [flag]), `${name}=${one}`]);
    if (position) return [value].flat().map(String);
    if (typeof value === 'boolean') return [flag];
    if (Array.isArray(value) && writingOf(schema).text === undefined)
      return [value].flat().flatMap((one) => [flag, String(one)]);
    return [flag, textOf(schema, value)];
  });
  return [...operation.name.split('.'), ...words];
}

const textOf = (schema: TSchema, value: unknown): string => (writingOf(schema).text ?? String)(value as never);

/** What is written to standard input. */
export const stdinOf = ({ input: { properties } }: Operation, input: Readonly<Record<string, unknown>>): string =>
  Object.keys(properties)
    .filter((name) => writingOf(properties[name]!).file === 'stdin')
    .map((name) => JSON.stringify(input[name]))
    .join('');

/** The same as a person writes it. */
export function lineOf(operation: Operation, input: Readonly<Record<string, unknown>>): string {
  const piped = stdinOf(operation, input);
  const line = ['troupe', ...wordsOf(operation, input).map(quoted)].join(' ');
  return piped === '' ? line : `echo '${piped}' | ${line}`;
}

const quoted = (text: string): string =>
  /^[\w./:@=,-]+$/.test(text) ? text : text.includes('"') ? `'${text}'` : `"${text}"`;
