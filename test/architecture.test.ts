/** Checks the architecture: which folder may import which, which file alone imports a heavy package, what is pure, and which names are not used. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { OPERATION_NAMES } from '../examples/coder-verifier/operations.ts';

const ROOT = join(import.meta.dirname, '..');

/** Paths from the root of what is ours: without packages, built files, homes and hidden folders, `.ci` excepted. */
function filesBelow(folder = ''): string[] {
  return readdirSync(join(ROOT, folder)).flatMap((name) => {
    const path = join(folder, name);
    if (['node_modules', 'dist', 'coverage', 'tmp'].includes(name) || (name.startsWith('.') && name !== '.ci'))
      return [];
    return statSync(join(ROOT, path)).isDirectory() ? filesBelow(path) : [path];
  });
}

/** `later`: while the program runs, by `import()`. */
type Import = { readonly file: string; readonly to: string; readonly typeOnly: boolean; readonly later: boolean };

const textOf = (file: string): string => readFileSync(join(ROOT, file), 'utf8');

function importsOf(file: string): Import[] {
  const found = textOf(file).matchAll(
    /^(?:import|export)\s+(type\s)?[^'";]*?from\s+'([^']+)'|^import\s+'([^']+)'|\bimport\(\s*'([^']+)'\s*\)/gm,
  );
  return [...found].map(([, type, from, bare, dynamic]) => ({
    file,
    to: (from ?? bare ?? dynamic) as string,
    typeOnly: type !== undefined,
    later: dynamic !== undefined,
  }));
}

const files = filesBelow();
const sources = files.filter((file) => file.endsWith('.ts'));
const imports = sources.flatMap(importsOf);
const relative = ({ to }: Import): boolean => to.startsWith('.');
const target = ({ file, to }: Import): string => normalize(join(dirname(file), to));
const room = (file: string): string => (file.includes('/') ? file.slice(0, file.indexOf('/')) : file);
const shown = ({ file, to }: Import): string => `${file} imports ${to}`;

describe('Imports run left along the data', () => {
  const ORDER: readonly (readonly string[])[] = [
    ['errors.ts', 'nearest.ts', 'document.ts', 'setting.ts', 'config.ts'],
    ['ingest'],
    ['store', 'migrations'],
    ['trainer'],
    ['api'],
    ['cli', 'cli.ts', 'index.ts'],
  ];
  const place = (file: string): number => ORDER.findIndex((rooms) => rooms.includes(room(file)));
  const inRooms = imports.filter((one) => relative(one) && place(one.file) >= 0);

  it('finds the imports at all', () => {
    expect(sources.length).toBeGreaterThan(100);
    expect(inRooms.length).toBeGreaterThan(300);
    for (const rooms of ORDER) expect(inRooms.some(({ file }) => rooms.includes(room(file)))).toBe(true);
  });

  it('errors, config ← ingest ← store ← trainer ← api ← cli: a file imports its own room and rooms to its left', () => {
    const wrong = inRooms.filter((one) => place(target(one)) < 0 || place(target(one)) > place(one.file));
    // The command line alone may start the example that the demo plays.
    expect(wrong.filter((one) => !(room(one.file) === 'cli' && room(target(one)) === 'examples')).map(shown)).toEqual(
      [],
    );
  });

  it('within ingest: events, recorder ← log ← OTLP ← what formats share ← spans ← formats ← files', () => {
    const LAYERS = [
      'ingest/events/',
      'ingest/recorder/',
      'ingest/log/',
      'ingest/traces/otlp/',
      'ingest/formats/kit/',
      'ingest/traces/',
      'ingest/formats/',
      'ingest/files/',
    ];
    const layer = (file: string): number => LAYERS.findIndex((folder) => file.startsWith(folder));
    const inside = imports.filter((one) => relative(one) && room(one.file) === 'ingest');
    expect(inside.filter((one) => layer(one.file) < 0).map(shown)).toEqual([]);
    expect(inside.filter((one) => layer(target(one)) > layer(one.file)).map(shown)).toEqual([]);
  });

  it('a folder holds folders or files of one kind: none stand loose at the top of a module', () => {
    const loose = sources.filter((file) => /^(ingest|store|trainer|api)\/[^/]+$/.test(file));
    expect(loose).toEqual([]);
  });

  it('no file imports, by way of others, itself: not even types', () => {
    const next = new Map(sources.map((file) => [file, [] as string[]]));
    for (const one of imports) if (relative(one) && !one.later) next.get(one.file)?.push(target(one));
    const reaches = (from: string): ReadonlySet<string> => {
      const seen = new Set<string>();
      const open = [...(next.get(from) ?? [])];
      for (let file = open.pop(); file !== undefined; file = open.pop()) {
        if (seen.has(file)) continue;
        seen.add(file);
        open.push(...(next.get(file) ?? []));
      }
      return seen;
    };
    expect(sources.filter((file) => reaches(file).has(file))).toEqual([]);
  });

  it('settings are read in the command line and handed down', () => {
    const readers = inRooms.filter((one) => target(one) === 'config.ts').map(({ file }) => room(file));
    expect([...new Set(readers)].filter((name) => !['cli', 'cli.ts', 'index.ts'].includes(name))).toEqual([]);
  });

  it('no room imports tests, proofs or pages', () => {
    const wrong = inRooms.filter((one) => ['test', 'proofs', 'bench', 'docs', 'docker'].includes(room(target(one))));
    expect(wrong.map(shown)).toEqual([]);
  });

  it('every relative import names a file that exists, with its ending .ts outside bin', () => {
    const wrong = imports.filter(
      (one) => relative(one) && !(/\.ts$|\/bin\//.test(one.to) && existsSync(join(ROOT, target(one)))),
    );
    expect(wrong.map(shown)).toEqual([]);
  });
});

describe('Each heavy package is imported by one file', () => {
  const IMPORTERS: Readonly<Record<string, readonly string[]>> = {
    pg: ['store/db/pool.ts'],
    'pg-copy-streams': ['store/db/pool.ts'],
    'pg-cursor': ['store/db/pool.ts'],
    kysely: ['store/db/query.ts', 'store/db/corrections.ts'],
    'apache-arrow': ['store/datasets/arrow.ts'],
    'parquet-wasm': ['store/datasets/parquet.ts'],
    'onnxruntime-node': ['trainer/tensor/session.ts'],
    '@bufbuild/protobuf': ['trainer/tensor/onnx.ts'],
    '@huggingface/tokenizers': ['trainer/model/tokens/token-models.ts'],
    '@huggingface/jinja': ['trainer/model/tokens/jinja.ts'],
    fzstd: ['ingest/log/zstd.ts'],
    kafkajs: ['ingest/log/kafka.ts'],
    croner: ['store/queue/schedules/cron.ts'],
    fastify: ['api/'],
    pino: ['api/http/log.ts'],
    'prom-client': ['api/health/prometheus.ts'],
    commander: ['cli/', 'cli.ts'],
    'cli-progress': ['cli/'],
    picocolors: ['cli/'],
  };
  const packageOf = (name: string): string => name.split('/', name.startsWith('@') ? 2 : 1).join('/');
  const outside = /^(test|bench|proofs|docs|docker|examples\/analysis)\/|\.config\.ts$/;
  const ours = imports.filter((one) => !relative(one) && !outside.test(one.file));

  it('is the only file that imports it', () => {
    const wrong = ours.filter((one) => {
      const doors = IMPORTERS[packageOf(one.to)];
      return (
        doors !== undefined &&
        !doors.some((door) => one.file === door || (door.endsWith('/') && one.file.startsWith(door)))
      );
    });
    expect(wrong.map(shown)).toEqual([]);
  });

  it('every package that is imported is a declared dependency', () => {
    const { dependencies, optionalDependencies } = JSON.parse(textOf('package.json'));
    const declared = new Set(Object.keys({ ...dependencies, ...optionalDependencies }));
    const wrong = ours.filter(({ to }) => !to.startsWith('node:') && !declared.has(packageOf(to)));
    expect(wrong.map(shown)).toEqual([]);
  });
});

describe('Statements are composed', () => {
  /** Files that hold whole statements as text, each with its reason. */
  const SQL_TEXT: Readonly<Record<string, string>> = {
    'api/operations/explain.ts': 'an example',
    'api/operations/sql.ts': 'examples',
    'ingest/log/postgres.ts': 'the append to the embedded log: prepared statements whose text never changes',
    'migrations/migrate.ts': 'runs before there are tables',
    'migrations/views.ts': 'reads the catalogue, and makes views again',
    'store/server/backup/backup.ts': 'made from the catalogue, for every table there is',
    'store/server/backup/restore.ts': 'made from what the backup lists',
    'store/db/database.ts': "asks for the server's own catalogue, before there is a project",
    'store/db/schema-text.ts': 'reads the catalogue that the types are made of',
    'store/server/tool-clock.ts': "asks for the server's own catalogue, and ends sessions",
    'store/server/end-backend.ts': 'ends sessions',
    'store/log/archive.ts': 'the append of what comes from Kafka, and its place',
    'store/log/follow.ts': 'places in a log',
    'store/log/known-log.ts': 'places in a log',
    'store/log/reconcile.ts': 'recounts places and rows, one table after another',
    'store/projecting/apply.ts':
      'a hot path: prepared statements of each batch of the projector, whose text never changes',
    'store/projecting/grown-tables.ts': 'the catalogue of PostgreSQL, and ANALYZE',
    'store/projecting/partitions.ts': 'places in a log, and their locks',
    'store/projecting/leases.ts': 'places in a log',
    'store/projecting/positions.ts': 'places in a log',
    'store/projecting/project-by-key.ts': 'places in a log',
    'store/projecting/projector.ts': 'places in a log, moved by the projector',
    'store/projecting/read-batch.ts': 'the read of the log: prepared statements whose text never changes',
    'store/projecting/stored-texts.ts': 'the projector: the texts of a batch, planned once',
    'store/projecting/resolver.ts':
      'a hot path: prepared statements of each batch of the projector, whose text never changes',
    'store/projecting/derived-state.ts':
      'a hot path: prepared statements of each batch of the projector, whose text never changes',
    'store/projecting/summaries.ts':
      'a hot path: prepared statements of each batch of the projector, whose text never changes',
    'store/projecting/traces.ts':
      'a hot path: prepared statements of each batch of the projector, whose text never changes',
    'store/projecting/late.ts': 'locks and takes what was set aside, and compares the system columns of its row',
    'store/projecting/pending-changes.ts': 'locks what batches left, and takes it',
    'store/projecting/write-batch.ts': 'made from the columns of a projection',
    'store/projecting/write-rows.ts': 'made from the columns of a projection',
    'store/projecting/rebuilding/checksum.ts': 'made from the catalogue, for every table there is',
    'store/projecting/rebuilding/rebuild.ts': 'definitions of tables and views, and the swap of two schemas',
    'store/keep/prune.ts': 'the read of the log for an archive',
    'store/keep/put-back.ts': 'the append of archived events to the log, in bulk',
    'store/keep/remove.ts': 'takes events out of the log with what was made of them, in bulk',
    'store/keep/removed-bodies.ts': 'locks and reads the log',
    'store/keep/restore.ts': 'counts places in a log, in bulk',
    'store/queue/schedules/new-episodes.ts': 'places in a log',
    'store/explore/sql/sql-file.ts': "the user's own SQL",
    'store/explore/sql/sql.ts': "the user's own SQL",
  };
  const statement =
    /^\s*(with\s+(recursive\s+)?\w+\s+as\b|select\b[\s\S]*\bfrom\b|insert into\b|update\b[\s\S]*\bset\b|delete from\b)/i;
  const literal = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`/g;
  const holdsStatement = (file: string): boolean =>
    [...textOf(file).matchAll(literal)].some(([, a, b, c]) => statement.test(a ?? b ?? c ?? ''));

  it('no literal or template holds a whole statement, but in the files that say why', () => {
    const holding = sources.filter((file) => /^(ingest|store|migrations|trainer|api|cli|index|config)\b/.test(file));
    expect(holding.filter(holdsStatement).sort()).toEqual(Object.keys(SQL_TEXT).sort());
  });
});

describe('Methods, losses, gradients, formats and projections are pure', () => {
  const pure = sources.filter(
    (file) =>
      /^(store\/evaluate\/methods|store\/evaluate\/statistics|store\/datasets\/layouts|store\/tables|trainer\/model\/losses|ingest\/formats|ingest\/traces)\//.test(
        file,
      ) ||
      (file.startsWith('trainer/tensor/') && file !== 'trainer/tensor/session.ts'),
  );

  it('names only files that exist', () => {
    for (const folder of [
      'store/evaluate/methods',
      'store/evaluate/statistics',
      'store/datasets/layouts',
      'store/tables',
      'trainer/model/losses',
      'trainer/tensor',
      'ingest/formats',
      'ingest/traces',
    ]) {
      expect(pure.some((file) => file.startsWith(`${folder}/`))).toBe(true);
    }
  });

  it('neither they nor what they import reach anything of the machine but hashing', () => {
    const valuesOf = (file: string) => imports.filter((one) => one.file === file && !one.typeOnly);
    const seen = new Set(pure);
    for (const file of seen) {
      for (const one of valuesOf(file)) if (relative(one)) seen.add(target(one));
    }
    const wrong = [...seen].flatMap(valuesOf).filter(({ to }) => to.startsWith('node:') && to !== 'node:crypto');
    expect(wrong.map(shown)).toEqual([]);
  });

  it('P19: they read no clock, no environment and no randomness', () => {
    const impure =
      /Date\.now|new Date\(\)|Math\.random|performance\.now|process\.(env|hrtime)|random(Bytes|Int|UUID)\(|setTimeout|setInterval|\bfetch\(/;
    expect(pure.filter((file) => impure.test(textOf(file)))).toEqual([]);
  });

  const holdsMethod = (file: string): boolean =>
    file.startsWith('store/evaluate/methods/') && / = method\(\{/.test(textOf(file));

  it('methods do not know each other: only the catalogue and who runs methods import one', () => {
    const methods = new Map(
      sources
        .filter(holdsMethod)
        .flatMap((file) =>
          [...textOf(file).matchAll(/^export const (\w+) = method\(/gm)].map(([, name]) => [name!, file]),
        ),
    );
    expect(methods.size).toBeGreaterThan(100);
    const wrong = sources.filter(holdsMethod).flatMap((file) =>
      [...textOf(file).matchAll(/^import \{([^}]*)\} from '\./gm)]
        .flatMap(([, names]) => names!.match(/\w+/g) ?? [])
        .filter((name) => methods.has(name))
        .map((name) => `${file} imports ${name}`),
    );
    expect(wrong).toEqual([]);
  });

  it.each([
    ['freezing a dataset', 'store/datasets/freeze.ts'],
    ['judging', 'api/operations/judge/run.ts'],
    ['checking a plan', 'trainer/loop/plan/check.ts'],
    ['a plan that runs', 'trainer/loop/plan/plan-run.ts'],
    ['restoring what was archived', 'store/keep/restore.ts'],
  ])('%s loads no method: names are in the catalogue, and a file is loaded when its method is named', (_, entry) => {
    const seen = new Set([entry]);
    for (const file of seen)
      for (const one of imports.filter((it) => it.file === file && !it.typeOnly && !it.later && relative(it)))
        seen.add(target(one));
    expect(seen).toContain('store/evaluate/methods/catalogue.ts');
    expect(seen).not.toContain('store/evaluate/methods/find.ts');
    expect([...seen].filter(holdsMethod)).toEqual([]);
  });

  it('the graph library knows nothing of ours but errors', () => {
    const wrong = imports.filter(
      (one) =>
        one.file.startsWith('trainer/tensor/') &&
        relative(one) &&
        !/^(trainer\/tensor\/|errors\.ts$)/.test(target(one)),
    );
    expect(wrong.map(shown)).toEqual([]);
  });
});

describe('The examples are outside teams', () => {
  it('import nothing of Troupe but the recorder', () => {
    const wrong = imports.filter(
      (one) =>
        room(one.file) === 'examples' &&
        // Programs of data scientists use Troupe as a package.
        !one.file.startsWith('examples/analysis/') &&
        (relative(one)
          ? room(target(one)) !== 'examples' && target(one) !== 'ingest/recorder/recorder.ts'
          : !one.to.startsWith('node:')),
    );
    expect(wrong.map(shown)).toEqual([]);
  });

  it('the recorder needs nothing but Node, and of Troupe only types', () => {
    const parts = sources.filter((file) => /^ingest\/recorder\//.test(file));
    expect(parts.length).toBeGreaterThan(1);
    const wrong = parts
      .flatMap(importsOf)
      .filter((one) => !one.typeOnly && !one.to.startsWith('node:') && !parts.includes(target(one)));
    expect(wrong.map(shown)).toEqual([]);
  });

  it('neither the judge, the methods nor the trainer use words of the demo', () => {
    const words = OPERATION_NAMES.map((name) => `#${name}`);
    expect(words.length).toBeGreaterThan(3);
    const wrong = sources
      .filter((file) => /^(store|trainer)\//.test(file))
      .filter((file) =>
        [...words, 'coder-verifier', 'examples/'].some((word) => new RegExp(`${word}\\b`).test(textOf(file))),
      );
    expect(wrong).toEqual([]);
  });
});

describe('Names and words', () => {
  it('nothing is called core, common, shared, utils, helpers, manager or service', () => {
    const vague = /^(core|common|shared|util|utils|helper|helpers|manager|managers|service|services|misc)$/;
    const parts = (file: string): string[] => file.replace(/\.[a-z.]+$/, '').split(/[/_-]/);
    expect(files.filter((file) => parts(file).some((part) => vague.test(part)))).toEqual([]);
  });

  it('every function and constant that is exported is used by another file', () => {
    // Generated whole, and what the package gives to its users.
    const open = ['store/db/schema.ts', 'index.ts', 'ingest/recorder/recorder.ts'];
    const words = new Map(sources.map((file) => [file, new Set(textOf(file).match(/[A-Za-z_$][\w$]*/g))]));
    const usedBeside = (name: string, file: string) =>
      [...words].some(([other, all]) => other !== file && all.has(name));
    const unused = sources
      .filter((file) => /^(ingest|store|trainer|api|cli)$/.test(room(file)) && !open.includes(file))
      .flatMap((file) =>
        [...textOf(file).matchAll(/^export (?:async )?(?:const|function|class) ([\w$]+)/gm)]
          // The catalogue takes all methods of a file.
          .filter(([line, name]) => !usedBeside(name!, file) && !textOf(file).includes(`${line} = method(`))
          .map(([, name]) => `${file}: ${name}`),
      );
    expect(unused).toEqual([]);
  });

  it('nothing is left for later', () => {
    // Written apart, so that this line is not one of them.
    const later = new RegExp(`\\b(${['TO', 'FIX'].map((half, i) => half + ['DO', 'ME'][i]).join('|')})\\b`);
    expect(files.filter((file) => /\.(ts|sql|py|md|html|css|ya?ml)$/.test(file) && later.test(textOf(file)))).toEqual(
      [],
    );
  });

  it('the repository speaks of Troupe alone', () => {
    const foreign = new RegExp(
      [
        `(^|[\\s"'(=\`])/${'work'}(/|\\b)`,
        `\\.\\./${'shared'}\\b`,

        `\\b${'issue'} #?[0-9]+\\b`,
      ].join('|'),
      'm',
    );
    expect(files.filter((file) => /\.(ts|sql|py|md|html|css|ya?ml)$/.test(file) && foreign.test(textOf(file)))).toEqual(
      [],
    );
  });
});
