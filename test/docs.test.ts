/** Holds the pages to the code: what is made from it, which files and functions are named, which commands and settings are shown. */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../cli/commands.ts';
import { SETTINGS } from '../config.ts';
import { clientRoutes, commandsPage } from '../docs/operations-page.ts';
import { errorsPage, eventsPage, fieldsOfFormat, methodFile, methodsPage, viewPages } from '../docs/pages.ts';
import { tablesPage } from '../docs/tables-page.ts';
import { importFiles } from '../ingest/files/import.ts';
import { FORMATS } from '../ingest/formats/catalogue.ts';
import { createRecorder } from '../ingest/recorder/recorder.ts';
import { PROGRAMS } from '../proofs/clients.ts';
import { teamTable } from '../proofs/team-table.ts';
import { LAYOUTS } from '../store/datasets/layouts/catalogue.ts';
import { METHODS } from '../store/evaluate/methods/find.ts';
import { sampleFolders } from './golden/recorded.ts';
import { memoryLog } from './ingest/support/memory-log.ts';
import { freshDatabase } from './support/database.ts';

const ROOT = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const there = (path: string): boolean => existsSync(join(ROOT, path));
const pages = [
  'README.md',
  'CHANGELOG.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

/** Repository paths in backticks, folders and files. */
const named = (text: string): string[] => [
  ...new Set([...text.matchAll(/`((?:[a-z][\w.-]*\/)+[\w.-]*)`/g)].map(([, path]) => path as string)),
];
const ROOMS = /^(ingest|store|trainer|api|cli|migrations|examples|test|proofs|docs|bench|docker)\//;

describe('Pages made from the code say what the code says (if not: npm run docs)', () => {
  it('docs/events.md', () => expect(read('docs/events.md')).toBe(eventsPage()));
  it('docs/tables.md', () => expect(read('docs/tables.md')).toBe(tablesPage()));
  it('docs/errors.md', () => expect(read('docs/errors.md')).toBe(errorsPage()));
  it('docs/commands.md', async () => expect(read('docs/commands.md')).toBe(await commandsPage()));
  it('api/client/routes.ts', async () => expect(read('api/client/routes.ts')).toBe(await clientRoutes()));
  it('docs/methods.md', () => expect(read('docs/methods.md')).toBe(methodsPage()));
  it('docs/sql.md and docs/reports.md, of a migrated database, with a sentence about every view', async () => {
    const { db, close } = await freshDatabase();
    try {
      expect({ sql: read('docs/sql.md'), reports: read('docs/reports.md') }).toEqual(await viewPages(db));
      const { rows } = await db.query(
        `select relname from pg_class c where relnamespace in ('traj'::regnamespace, 'report'::regnamespace) and relkind = 'v' and obj_description(c.oid, 'pg_class') is null`,
      );
      expect(rows).toEqual([]);
    } finally {
      await close();
    }
  });
  it('docs/layouts.md has a row for every layout', () => {
    const rows = [...read('docs/layouts.md').matchAll(/^\| `([\w-]+)` +\|/gm)].map(([, name]) => name);
    expect(rows).toEqual(LAYOUTS.map(({ name }) => name));
  });
  it('docs/fields.md has every format', () => {
    const sections = [...read('docs/fields.md').matchAll(/^## (.+)$/gm)].map(([, name]) => name);
    expect(sections).toEqual(FORMATS.map(({ name }) => name));
  });
  // All of them take a minute; these hold lists, objects, times, counts, texts in texts and several files.
  const quick = ['tau-bench', 'who-when', 'maslab', 'sharegpt', 'agentverse', 'swe-dev', 'redel', 'are'];
  it.each(sampleFolders().filter(([name]) => quick.includes(name)))('docs/fields.md of %s', async (name, folder) => {
    const { mapping = [] } = await importFiles([folder], { ...memoryLog(), dryRun: true });
    expect(read('docs/fields.md')).toContain(fieldsOfFormat(name, mapping));
  });
  it('every method has its file', () => {
    expect(METHODS.map(methodFile).filter((file) => file.endsWith('undefined') || !there(file))).toEqual([]);
  });
});

describe('What pages name is there', () => {
  it.each(pages)('%s: files, folders and links', (page) => {
    const text = read(page);
    expect(named(text).filter((path) => ROOMS.test(path) && !there(path))).toEqual([]);
    const links = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, link]) => link as string);
    expect(links.filter((link) => !existsSync(join(ROOT, page, '..', link)))).toEqual([]);
  });

  it('docs/README.md lists every page of docs/ once', () => {
    const listed = [...read('docs/README.md').matchAll(/\]\((\w+\.md)\)/g)].map(([, page]) => `docs/${page}`);
    const expected = pages.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
    expect(listed.filter((page) => page !== 'docs/start.md').sort()).toEqual(
      expected.filter((page) => page !== 'docs/start.md').sort(),
    );
    expect(listed).toContain('docs/start.md');
  });

  it('docs/capabilities.md: every test is there, by file and name', () => {
    const rows = [...read('docs/capabilities.md').matchAll(/^\| .*? +\| `(test\/[^`]+)` +\| (.*?) +\|$/gm)];
    expect(rows.length).toBeGreaterThan(150);
    const missing = rows
      .map(([, file, name]) => [file!, name!.replaceAll('\\|', '|')] as const)
      .filter(([file, name]) => !there(file) || !read(file).includes(name));
    expect(missing).toEqual([]);
  });

  it('docs/proofs.md: every promise is named by a test or a proof that holds it, and none is missing from the list', () => {
    const listed = [...read('docs/proofs.md').matchAll(/^\| (P\d+) +\|/gm)].map(([, promise]) => promise);
    const programs = ['test', 'proofs'].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((path) => path.endsWith('.ts') && !path.includes('node_modules'))
        .map((path) => read(`${folder}/${path}`)),
    );
    // At the beginning of a title, or of what a proof prints.
    const named = programs.flatMap((text) =>
      [...text.matchAll(/['"`](P\d+(?:, P\d+)*)[:,]/g)].flatMap(([, promises]) => promises!.split(', ')),
    );
    expect([...new Set(named)].sort()).toEqual([...listed].sort());
  });

  it('docs/ingest.md: the table of teams is what the proof compares', () => {
    expect(read('docs/ingest.md')).toContain(teamTable());
  });

  it('docs/ingest.md: the lines for a framework stand in the program that was run', () => {
    const shown = [...read('docs/ingest.md').matchAll(/`(proofs\/clients\/[^`]+)`\)\n\n```\w+\n([\s\S]*?)```/g)];
    expect(shown.length).toBe(PROGRAMS.length);
    for (const [, file = '', lines = ''] of shown) {
      const program = read(file).split('\n');
      expect([
        file,
        lines
          .trimEnd()
          .split('\n')
          .filter((line) => !program.includes(line)),
      ]).toEqual([file, []]);
    }
  });

  it('docs/flow.md: every function is in the file that the page names', () => {
    // A line may end anywhere in it.
    const text = read('docs/flow.md').replace(/\s+/g, ' ');
    const walked = [...text.matchAll(/`([\w./-]+\.ts)` · ((?:`\w+`(?:, | and )?)+)/g)];
    expect(walked.length).toBeGreaterThan(40);
    const wrong = walked.flatMap(([, file, functions]) =>
      [...functions!.matchAll(/`(\w+)`/g)]
        .map(([, name]) => name as string)
        .filter((name) => !there(file!) || !new RegExp(`\\b${name}\\b`).test(read(file!)))
        .map((name) => `${file} · ${name}`),
    );
    expect(wrong).toEqual([]);
  });

  it('docs/files.md: every line of the tree begins with what is there, and every room has a line', () => {
    const tree = /```\n([\s\S]*?)```/.exec(read('docs/files.md'))![1]!;
    const paths = tree
      .trim()
      .split('\n')
      .map((line) => line.split(' ', 1)[0]!);
    expect(paths.filter((path) => !there(path))).toEqual([]);
    for (const room of ['ingest', 'store', 'trainer', 'api', 'cli', 'migrations', 'examples', 'test', 'proofs', 'docs'])
      expect(paths.some((path) => path.startsWith(`${room}/`))).toBe(true);
  });
});

describe('README.md and docs/start.md can be followed', async () => {
  const program = new Command('troupe')
    .option('--home <dir>')
    .option('--project <name>')
    .option('--database-url <url>')
    .option('--json')
    .option('--quiet');
  for (const load of Object.values(COMMANDS)) await (await load()).addTo(program);

  const front = read('README.md');
  const start = read('docs/start.md');
  const shown = [...`${front}\n${start}`.matchAll(/npx troupe ([^\n`]+)/g)].map(([, words]) => words as string);

  it('shows commands', () => expect(shown.length).toBeGreaterThan(8));

  it('README.md is at most 120 lines', () => expect(front.split('\n').length).toBeLessThanOrEqual(121));

  it('what README.md shows of the team in Python is in docs/start.md, which runs, and in the settings of the example', () => {
    const blocks = [...front.matchAll(/```(\w*)\n([\s\S]*?)```/g)];
    const lines = (kind: string) =>
      blocks
        .filter(([, of]) => of === kind)
        .flatMap(([, , text]) => text!.trim().split('\n'))
        .filter((line) => !line.startsWith('npm '));
    expect(lines('').filter((line) => !start.split('\n').includes(line))).toEqual([]);
    const settings = read('examples/python-team/troupe.yaml').split('\n');
    expect(lines('yaml').filter((line) => !settings.includes(line))).toEqual([]);
  });

  it.each(shown)('troupe %s', (line) => {
    const words = line
      .replace(/"[^"]*"/g, 'quoted')
      .split('#')[0]!
      .trim()
      .split(/\s+/);
    if (words[0] === '--help') return;
    const command = program.commands.find((one) => one.name() === words[0]);
    expect(command, words[0]).toBeDefined();
    // A noun alone lists, or starts.
    const named = (name: string | undefined) => command!.commands.find((one) => one.name() === name);
    const inner = named(words[1]) ?? named('list') ?? named('start') ?? command!;
    const known = [...program.options, ...inner.options].map((option) => option.long);
    for (const word of words.filter((one) => one.startsWith('--'))) expect(known).toContain(word);
  });

  it('lists every setting with its variable and default', () => {
    // However wide the table's columns are.
    const rows = read('docs/settings.md').replace(/ +/g, ' ');
    const wanted = Object.entries(SETTINGS).map(
      ([name, { env, fallback }]) => `| \`${name}\` | \`${env}\` | ${fallback === null ? 'none' : `\`${fallback}\``} |`,
    );
    expect(wanted.filter((row) => !rows.includes(row))).toEqual([]);
  });

  it('the recorder has every function of the snippet', () => {
    const snippet = /```ts\n([\s\S]*?)```/.exec(start)![1]!;
    const recorder = createRecorder({ baseUrl: 'http://127.0.0.1:1', source: '/test' });
    const used = [...snippet.matchAll(/recorder\.(\w+)\(/g)].map(([, name]) => name as keyof typeof recorder);
    expect(used.length).toBeGreaterThan(4);
    for (const name of used) expect(recorder[name]).toBeTypeOf('function');
  });
});
