/** Holds docker/ to the code without a container: what it names is there, and what it sets is known. The proof `compose-as-processes` runs it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../cli/commands.ts';
import { V8_FLAGS } from '../cli/processes/children.ts';
import { ROLE_NAMES } from '../cli/processes/role-names.ts';
import { refuseUnknownVariables } from '../cli/variables.ts';
import { loadConfig } from '../config.ts';
import { dockerFiles, readAll } from '../proofs/compose/all.ts';
import { copiedFrom, environmentOf, lastOf, readDockerfile, wordsOf } from '../proofs/compose/dockerfile.ts';
import { inOrder, readEnv, variablesOf } from '../proofs/compose/file.ts';

const ROOT = join(import.meta.dirname, '..');
const files = dockerFiles();
const { compose, image } = readAll(() => 'f'.repeat(64));
const { containers } = compose;
const ours = containers.filter((one) => one.ours);
const stages = readDockerfile(files.dockerfile);
const last = stages.at(-1)!;
const { version, engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

describe('docker/compose.yaml', async () => {
  const program = new Command('troupe').exitOverride().configureOutput({ writeErr: () => {} });
  for (const load of Object.values(COMMANDS)) (await load()).addTo(program);
  for (const command of program.commands) command.exitOverride().action(() => {});

  it('runs every role of `troupe run` as a process of its own', () => {
    expect(ours.map(({ command }) => command?.slice(0, 2).join(' ')).sort()).toEqual(
      ['doctor', ...ROLE_NAMES.map((role) => `run ${role}`)].sort(),
    );
  });

  it.each(ours)('$name: its command and its check are commands with options that the command line takes', (one) => {
    program.parse([...(one.command ?? image.command)], { from: 'user' });
    const check = one.healthcheck?.test ?? [];
    if (check[1] === image.entrypoint.at(-1)) program.parse(check.slice(2), { from: 'user' });
  });

  it('would notice an option that is not there', () => {
    expect(() => program.parse(['doctor', '--roles', 'judge'], { from: 'user' })).toThrow(/unknown option/);
    expect(() => program.parse(['doctor', '--role', 'judges'], { from: 'user' })).toThrow(/judges/);
  });

  it.each(ours)('$name: its variables are known, and its settings can be read', ({ environment }) => {
    expect(Object.keys(environment).length).toBeGreaterThan(3);
    expect(() => refuseUnknownVariables(environment)).not.toThrow();
    const { origins } = loadConfig({}, environment, join(ROOT, 'absent.yaml'));
    const settings = Object.values(origins).filter((origin) => origin === 'environment').length;
    const others = ['TROUPE_API_KEY', 'NODE_OPTIONS'].filter((name) => name in environment);
    expect(settings).toBe(Object.keys(environment).length - others.length);
  });

  it('waits only for what is there and has something to wait for, and for nothing in a circle', () => {
    expect(inOrder(containers)).toHaveLength(containers.length);
    for (const { name, dependsOn } of containers)
      for (const { name: other, condition } of dependsOn) {
        const awaited = containers.find((one) => one.name === other)!;
        const can = awaited.healthcheck?.test ? 'service_healthy' : 'service_completed_successfully';
        expect([name, other, condition]).toEqual([name, other, can]);
      }
  });

  it('each process has a check, a limit of memory, time to end well, and is started again', () => {
    for (const { name, raw, healthcheck, graceS, command } of containers) {
      expect([name, raw.mem_limit, raw.restart]).toEqual([
        name,
        expect.stringMatching(/^\d+[mg]$/),
        expect.any(String),
      ]);
      if (command?.[0] === 'doctor') continue;
      expect([name, healthcheck?.test?.length, graceS > 10]).toEqual([name, expect.any(Number), true]);
      expect(healthcheck!.timeoutS).toBeLessThan(healthcheck!.intervalS);
    }
  });

  it('names versions of images, publishes on loopback alone, declares its volumes, and has no version key', () => {
    for (const one of containers) {
      expect(one.image).toMatch(one.ours ? new RegExp(`^troupe:${version}$`) : /^[\w./-]+:\d+\.\d+(\.\d+)?[\w.-]*$/);
      for (const { host } of one.ports) expect(host).toBe('127.0.0.1');
      for (const { volume } of one.volumes) expect(compose.volumes).toContain(volume);
    }
    expect(compose.raw.version).toBeUndefined();
    expect(containers.flatMap(({ ports }) => ports).length).toBeGreaterThan(1);
  });

  it('asks for its secrets, and docker/env.example has a line for everything it asks for and nothing else', () => {
    expect(Object.keys(readEnv(files.env)).sort()).toEqual([...variablesOf(files.compose)].sort());
    const secrets = Object.entries(readEnv(files.env)).filter(([, value]) => value === '');
    expect(secrets.map(([name]) => name)).toEqual(['POSTGRES_PASSWORD', 'TROUPE_API_KEY']);
    expect(() => readAll(() => '')).toThrow(/is not set: write one/);
    expect(files.compose).not.toMatch(/\b[0-9a-f]{32,}\b/);
  });
});

describe('docker/Dockerfile', () => {
  it('copies what is there, and the builder is sent that alone', () => {
    const copied = [...new Set(stages.flatMap(copiedFrom))].sort();
    expect(copied.length).toBeGreaterThan(10);
    expect(copied.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
    const sent = files.ignored.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    expect(sent[0]).toBe('*');
    expect(sent.slice(1).map((line) => line.slice(1))).toEqual(copied);
  });

  it('copies every room that the program is built from', () => {
    const { include } = JSON.parse(readFileSync(join(ROOT, 'tsconfig.build.json'), 'utf8'));
    const copied = stages.flatMap(copiedFrom);
    const atRoot = readdirSync(ROOT).filter((name) => name.endsWith('.ts') && !name.endsWith('.config.ts'));
    const built = include.flatMap((path: string) => (path === '*.ts' ? atRoot : [path]));
    expect(built.filter((path: string) => !copied.includes(path))).toEqual([]);
  });

  it('stands on one version of Node, which package.json allows', () => {
    const [base, ...rest] = new Set(stages.map((stage) => stage.image));
    expect(rest).toEqual([]);
    const [, major, minor] = /^node:(\d+)\.(\d+)\.\d+-\w+-slim$/.exec(base!)!.map(Number);
    const [, least, from] = /^>=(\d+)\.(\d+)$/.exec(engines.node)!.map(Number);
    expect([major! > least! || (major === least && minor! >= from!), base]).toEqual([true, base]);
  });

  it('runs as a user who is not root, given by number, and starts the program without a shell', () => {
    expect(lastOf(last, 'USER')).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(wordsOf(last, 'ENTRYPOINT')).toEqual(['node', ...V8_FLAGS, '/app/dist/cli.js']);
    expect(wordsOf(last, 'CMD')).toEqual(['up']);
  });

  it('asks the API whether it is alive, at the port that is set', async () => {
    const [program, ...args] = JSON.parse(lastOf(last, 'HEALTHCHECK')!.replace(/^.*?CMD /, '')) as string[];
    expect(program).toBe('node');
    const asked: (string | undefined)[] = [];
    const statuses = [200, 500];
    const server = createServer((request, response) => {
      asked.push(request.url);
      response.writeHead(statuses.shift()!).end();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const check = (): Promise<number | null> =>
      new Promise((resolve) => {
        const child = spawn(process.execPath, args, { env: { TROUPE_PORT: String(port) }, stdio: 'ignore' });
        child.once('exit', resolve);
      });
    expect([await check(), await check()]).toEqual([0, 1]);
    server.close();
    server.closeAllConnections();
    expect(await check()).toBe(1);
    expect(asked).toEqual(['/healthz', '/healthz']);
  });

  it('keeps the home where the volume is mounted, and says its version', () => {
    expect(environmentOf(last)).toEqual({ TROUPE_HOME: '/data' });
    for (const { volumes } of ours) expect(volumes.map(({ target }) => target)).toEqual(['/data']);
    expect(lastOf(last, 'ARG') === null).toBe(false);
    expect(files.dockerfile).toContain(`ARG VERSION=${version}\n`);
  });
});
