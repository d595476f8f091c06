/**
 * Proof that the package works where people install it: it is built and packed, installed from the tarball into an empty project, and
 * there the recorder of docs/start.md and the format and methods of docs/own.md type-check and run, and the library answers.
 */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Outcome, Proof, Setting } from './proof.ts';

const ROOT = join(import.meta.dirname, '..');
const run = promisify(execFile);

export const proof: Proof = {
  name: 'package-installs',
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };
    const { DATABASE_URL: _, ...env } = process.env;
    const shell = (file: string, args: readonly string[], cwd: string) =>
      run(file, args, { cwd, env: { ...env, NO_COLOR: '1' }, maxBuffer: 2 ** 26 });

    const packed = join(scratch, 'packed');
    mkdirSync(packed);
    // In a copy: what runs from this checkout's dist meanwhile must not lose it.
    const checkout = join(scratch, 'checkout');
    const beside = ['node_modules', 'dist', 'test', 'proofs', 'bench', 'docs'];
    mkdirSync(checkout);
    for (const name of readdirSync(ROOT).filter((one) => !one.startsWith('.') && !beside.includes(one)))
      cpSync(join(ROOT, name), join(checkout, name), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'));
    await shell('npm', ['run', 'build'], checkout);
    const { stdout } = await shell(
      'npm',
      ['pack', '--json', '--ignore-scripts', '--pack-destination', packed],
      checkout,
    );
    const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
    const names = files.map(({ path }) => path);
    const wanted = [
      'bin/troupe.js',
      'dist/cli.js',
      'dist/index.d.ts',
      'dist/ingest/recorder/recorder.js',
      'dist/api/page/page.js',
      'recipes/dr-mas.yaml',
    ];
    const lacking = wanted.filter((name) => !names.includes(name));
    check(
      `${names.length} files are packed, dist among them and no TypeScript source`,
      lacking.length === 0 && !names.some((name) => /(?<!\.d)\.ts$/.test(name)),
      lacking,
    );

    const project = join(scratch, 'project');
    mkdirSync(project);
    writeFileSync(join(project, 'package.json'), '{ "type": "module", "private": true }');
    await shell('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', join(packed, filename)], project);
    const { stdout: version } = await shell('npx', ['--no', '--', 'troupe', '--version'], project);
    check(
      'npx --no -- troupe --version',
      version.trim() === JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version,
      version,
    );

    const snippet = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(ROOT, 'docs/start.md'), 'utf8'))![1]!;
    writeFileSync(join(project, 'record.ts'), snippet);
    const own = [...readFileSync(join(ROOT, 'docs/own.md'), 'utf8').matchAll(/```(json|ts|yaml)\n([\s\S]*?)```/g)];
    for (const [i, name] of ['debate.json', 'my-format.ts', 'my-methods.ts', 'troupe.yaml'].entries())
      writeFileSync(join(project, name), own[i]![2]!);
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    const options = [
      '--module',
      'nodenext',
      '--target',
      'es2023',
      '--strict',
      '--skipLibCheck',
      '--typeRoots',
      join(ROOT, 'node_modules/@types'),
      '--types',
      'node',
      '--noEmitOnError',
      'record.ts',
      'my-format.ts',
      'my-methods.ts',
    ];
    const compiled = await shell(process.execPath, [tsc, ...options], project).then(
      () => '',
      (error) => String(error.stdout),
    );
    check(
      'the recorder of docs/start.md and the modules of docs/own.md type-check against the package',
      compiled === '',
      compiled,
    );
    const troupe = (...args: string[]) => shell('npx', ['--no', '--', 'troupe', ...args, '--json'], project);
    const { stdout: imported } = await troupe('import', 'debate.json');
    await troupe('judge', '--methods', 'talk_share');
    const { stdout: scored } = await troupe('sql', 'select method, value from traj.scores');
    check(
      'troupe.yaml names a format and a method in TypeScript: the one reads a file, the other judges it',
      JSON.parse(imported).format === 'debate' && JSON.stringify(JSON.parse(scored).rows) === '[["talk_share",0.5]]',
      [imported, scored],
    );

    // The recorder's program against `troupe up` of the package.
    // Not by npx, which a signal ends without the program that it started.
    const program = join(project, 'node_modules/troupe/bin/troupe.js');
    const up = execFile(process.execPath, [program, 'up', '--port', '0', '--json'], { cwd: project, env });
    const ended = new Promise((resolve) => up.once('close', resolve));
    try {
      const url = await new Promise<string>((resolve, reject) => {
        let out = '';
        up.stdout!.on('data', (chunk) => {
          out += chunk;
          const [, found] = /"url":"(http:[^"]+)"/.exec(out) ?? [];
          if (found) resolve(found);
        });
        void ended.then(() => reject(new Error(`troupe up ended: ${out}`)));
      });
      const recording = join(project, 'record.js');
      writeFileSync(recording, readFileSync(recording, 'utf8').replaceAll('http://127.0.0.1:7717', url));
      await shell(process.execPath, [recording], project);
      writeFileSync(
        join(project, 'ask.js'),
        `import { openProject } from 'troupe';\nconst project = await openProject();\nconst { rows } = await project.sql({ sql: "select outcome, reward from traj.episodes where episode_id = 'sum-1-a'" });\nconsole.log(JSON.stringify(rows));\nawait project.close();\n`,
      );
      const { stdout: rows } = await shell(process.execPath, ['ask.js'], project);
      check('what it records is answered by openProject().sql', rows.trim() === '[["success",1]]', rows);
    } finally {
      up.kill('SIGTERM');
      await ended;
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};
