import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadConfig, type SettingName, shown } from '../config.ts';
import { TroupeError } from '../errors.ts';

describe('the configuration', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'troupe-config-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const file = (text: string): string => {
    const path = join(folder, 'troupe.yaml');
    writeFileSync(path, text);
    return path;
  };
  const nothing = (): string => join(folder, 'absent.yaml');
  const refusal = (flags: object, env: object, path = nothing()): TroupeError => {
    try {
      loadConfig(flags as never, env as never, path);
    } catch (error) {
      if (error instanceof TroupeError) return error;
      throw error;
    }
    throw new Error('it was taken');
  };

  it('has a default for everything, and says so', () => {
    const config = loadConfig({}, {}, nothing());
    expect(config).toMatchObject({ home: '.troupe', project: 'troupe', database_url: null, port: 7717, threads: 1 });
    expect(new Set(Object.values(config.origins))).toEqual(new Set(['default']));
  });

  it('takes flags over the environment over the file, and names the origin of each', () => {
    const path = file('port: 1\nhost: from-file\nproject: from-file\n');
    const config = loadConfig({ port: '3' }, { TROUPE_PORT: '2', TROUPE_HOST: 'from-env' }, path);
    expect([config.port, config.host, config.project]).toEqual([3, 'from-env', 'from-file']);
    expect(config.origins).toMatchObject({
      port: 'flag',
      host: 'environment',
      project: 'troupe.yaml',
      home: 'default',
    });
    expect(loadConfig({ databaseUrl: 'postgres://x' }, {}, nothing()).database_url).toBe('postgres://x');
  });

  it('takes an empty variable as one that is not set', () => {
    expect(loadConfig({}, { TROUPE_PORT: '' }, nothing()).origins.port).toBe('default');
  });

  it('P54: refuses what it does not understand with one line that names the setting, its origin and what came', () => {
    const cases: [object, object, string, RegExp][] = [
      [{ port: 'http' }, {}, '', /port \(from flag\).*"http"/],
      [{ port: '0x50' }, {}, '', /port/],
      [{ port: '' }, {}, '', /port/],
      [{ port: '65536' }, {}, '', /port.*65535/],
      [{}, { TROUPE_THREADS: '0' }, '', /threads \(from TROUPE_THREADS in the environment\).*from 1/],
      [{}, { TROUPE_PORT: '1.5' }, '', /port/],
      [{}, { TROUPE_PORT: '-1' }, '', /port/],
      [{}, {}, 'port: many', /port \(from troupe.yaml\)/],
      [{}, {}, 'project: 7', /project.*text.*7/],
      [{}, {}, 'home:', /home.*text.*null/],
      [{ home: '' }, {}, '', /home/],
      [{}, {}, 'prot: 1', /"prot" that Troupe does not know\. Did you mean port\?$/],
      [{}, {}, '__proto__: 1', /__proto__/],
      [{}, {}, '- a', /settings by name/],
      [{}, {}, 'a: [', /not YAML/],
    ];
    for (const [flags, env, text, sentence] of cases) {
      const error = refusal(flags, env, text === '' ? nothing() : file(text));
      expect(error.code).toBe('config_invalid');
      expect(error.message).toMatch(sentence);
      expect(error.message).not.toContain('\n');
    }
  });

  it('takes an empty file and a null where there may be none', () => {
    expect(loadConfig({}, {}, file('')).port).toBe(7717);
    expect(loadConfig({}, {}, file('database_url: null')).database_url).toBeNull();
  });

  it('shows values with the secrets masked, however they are written', () => {
    const of = (url: string) => shown(loadConfig({ databaseUrl: url }, {}, nothing()), 'database_url');
    for (const url of [
      'postgres://ann:s3cret@host:1/db',
      'postgres://ann:s3cret/s3cret@host/db',
      'postgres://ann:s3cret@s3cret@host/db',
      'postgres://host/db?user=ann&password=s3cret&sslmode=require',
      'host=h password=s3cret user=ann',
      "host=h password='s3cret with s3cret' user=ann",
    ]) {
      expect(of(url)).not.toContain('s3cret');
      expect(of(url)).toContain('***');
    }
    expect(of('postgres://host:1/db')).toBe('postgres://host:1/db');
    const config = loadConfig({}, {}, nothing());
    expect((['database_url', 'port', 'home'] as SettingName[]).map((name) => shown(config, name))).toEqual([
      '(none)',
      '7717',
      '.troupe',
    ]);
  });
});
