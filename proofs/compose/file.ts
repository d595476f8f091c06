/** docker/compose.yaml as the program that runs it would read it: variables filled in, merges done, long and short forms as one. */
import { parse } from 'yaml';

type Env = Readonly<Record<string, string>>;

export type HealthCheck = {
  /** A program with its words; null where the image's own check was switched off. */
  readonly test: readonly string[] | null;
  readonly intervalS: number;
  readonly timeoutS: number;
  readonly retries: number;
  readonly startPeriodS: number;
};

export type Container = {
  readonly name: string;
  readonly image: string;
  /** True for the image that is built from this checkout. */
  readonly ours: boolean;
  /** Null where the image's own holds. */
  readonly command: readonly string[] | null;
  readonly environment: Env;
  readonly healthcheck: HealthCheck | null;
  readonly dependsOn: readonly { readonly name: string; readonly condition: string }[];
  readonly ports: readonly { readonly host: string; readonly published: number; readonly target: number }[];
  readonly volumes: readonly { readonly volume: string; readonly target: string }[];
  readonly graceS: number;
  /** What was written, for what is not read here. */
  readonly raw: Readonly<Record<string, unknown>>;
};

export type Compose = {
  readonly containers: readonly Container[];
  readonly volumes: readonly string[];
  readonly raw: Readonly<Record<string, unknown>>;
};

/** @throws Error for what the file says in a way that is not read here, so that nothing is passed over. */
export function readCompose(text: string, env: Env): Compose {
  const raw = parse(text, { merge: true, stringKeys: true }) as Record<string, unknown>;
  const filled = fill(raw, env) as Record<string, Record<string, Record<string, unknown>>>;
  return {
    raw,
    volumes: Object.keys(filled.volumes ?? {}),
    containers: Object.entries(filled.services ?? {}).map(([name, written]) => container(name, written)),
  };
}

/** The names that the file asks its environment for. */
export const variablesOf = (text: string): readonly string[] => [
  ...new Set([...text.matchAll(/(?<!\$)\$\{(\w+)/g)].map(([, name]) => name as string)),
];

/** Lines `NAME=value`. */
export const readEnv = (text: string): Env =>
  Object.fromEntries(
    [...text.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [name as string, (value as string).trim()]),
  );

/** Each container after all that it waits for. @throws Error where they wait for each other or for none of the file */
export function inOrder(containers: readonly Container[]): readonly Container[] {
  const ordered: Container[] = [];
  const visit = (name: string, path: readonly string[]): void => {
    const found = containers.find((one) => one.name === name);
    if (!found) throw new Error(`${path.at(-1)} waits for ${name}, which is not there.`);
    if (path.includes(name)) throw new Error(`${[...path, name].join(' waits for ')}.`);
    if (ordered.includes(found)) return;
    for (const before of found.dependsOn) visit(before.name, [...path, name]);
    ordered.push(found);
  };
  for (const { name } of containers) visit(name, []);
  return ordered;
}

function container(name: string, written: Record<string, unknown>): Container {
  const { entrypoint, env_file, environment = {}, depends_on = {}, ports = [], volumes = [] } = written;
  if (entrypoint !== undefined || env_file !== undefined || Array.isArray(environment) || Array.isArray(depends_on))
    throw new Error(`${name} has an entrypoint, an env_file or a list where a map is read.`);
  return {
    name,
    image: String(written.image),
    ours: written.build !== undefined,
    command: written.command === undefined ? null : words(name, written.command),
    environment: Object.fromEntries(Object.entries(environment as object).map(([key, value]) => [key, String(value)])),
    healthcheck: healthcheck(name, written.healthcheck as Record<string, unknown> | undefined),
    dependsOn: Object.entries(depends_on as Record<string, { condition: string }>).map(([other, { condition }]) => ({
      name: other,
      condition,
    })),
    ports: (ports as unknown[]).map((port) => {
      const [, host, published, target] = /^([\d.]+):(\d+):(\d+)$/.exec(String(port)) ?? [];
      if (target === undefined) throw new Error(`${name}: the port ${port} is not address:port:port.`);
      return { host: host as string, published: Number(published), target: Number(target) };
    }),
    volumes: (volumes as unknown[]).map((volume) => {
      const [, source, target] = /^([a-z]+):(\/[^:]+)$/.exec(String(volume)) ?? [];
      if (target === undefined) throw new Error(`${name}: ${volume} is not name:/path.`);
      return { volume: source as string, target };
    }),
    graceS: seconds(written.stop_grace_period ?? '10s'),
    raw: written,
  };
}

function healthcheck(name: string, written: Record<string, unknown> | undefined): HealthCheck | null {
  if (written === undefined) return null;
  const { disable = false, test, interval = '30s', timeout = '30s', retries = 3, start_period = '0s' } = written;
  const [how, ...program] = disable ? ['NONE'] : words(name, test);
  if (how !== 'CMD' && how !== 'NONE') throw new Error(`${name}: its check is not of the form CMD.`);
  return {
    test: how === 'CMD' ? program : null,
    intervalS: seconds(interval),
    timeoutS: seconds(timeout),
    retries: Number(retries),
    startPeriodS: seconds(start_period),
  };
}

function words(name: string, written: unknown): readonly string[] {
  if (Array.isArray(written)) return written.map(String);
  throw new Error(`${name}: a command should be a list of words, so that no shell stands before it.`);
}

function seconds(written: unknown): number {
  const [, number, unit] = /^(\d+)(s|m)$/.exec(String(written)) ?? [];
  if (number === undefined) throw new Error(`${written} is not a time in seconds or minutes.`);
  return Number(number) * (unit === 'm' ? 60 : 1);
}

/** `${NAME}`, `${NAME:-instead}`, `${NAME:?complaint}`, and `$$` for a dollar sign. */
function fill(value: unknown, env: Env): unknown {
  if (Array.isArray(value)) return value.map((one) => fill(one, env));
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fill(one, env)]));
  if (typeof value !== 'string') return value;
  return value.replace(/\$(?:\$|\{(\w+)(?:(:[-?])([^}]*))?\})/g, (all, name, how, rest) => {
    if (all === '$$') return '$';
    const found = env[name];
    if (found) return found;
    if (how === ':-') return rest;
    throw new Error(`${name} is not set: ${rest ?? 'it has no default'}`);
  });
}
