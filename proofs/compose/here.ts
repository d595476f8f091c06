/**
 * From the containers' network and files to this machine, by one rule for every text of the file:
 *
 * 1. `name:port`, where `name` is a container of the file, becomes a port of 127.0.0.1 that stands for that port of that container.
 * 2. A port that the container itself listens on (published, or named by another as `name:port`) becomes that same port here: after
 *    127.0.0.1, localhost, 0.0.0.0 or nothing, which then becomes 127.0.0.1, and as a word of its own.
 * 3. A path below a folder of the container (a volume, or what the image holds) becomes the path below the folder that stands for it.
 *
 * No variable is known by its name, and what no rule touches stays as it is written.
 */
import { join } from 'node:path';
import { freePort } from '../../test/support/free-port.ts';
import type { Container } from './file.ts';

export type Here = {
  /** The port here that stands for one of a container. @throws Error for one that nothing listens on */
  readonly port: (name: string, port: number) => number;
  readonly text: (container: Container, text: string) => string;
  readonly environment: (container: Container) => Record<string, string>;
};

/** `folder` holds the volumes; `images` is what stands for folders of images, such as `/app/dist`. */
export async function openHere(
  containers: readonly Container[],
  folder: string,
  images: Readonly<Record<string, string>>,
): Promise<Here> {
  const ports = new Map<string, number>();
  for (const key of portsOf(containers)) ports.set(key, await freePort());
  const names = containers.map(({ name }) => name).join('|');
  const others = new RegExp(`(?<![\\w.-])(${names}):(\\d{2,5})(?![\\w.-])`, 'g');
  const pathOf = ({ volumes }: Container, path: string): string => {
    const folders = [
      ...volumes.map(({ volume, target }) => [target, join(folder, volume)] as const),
      ...Object.entries(images),
    ];
    const found = folders.find(([target]) => path === target || path.startsWith(`${target}/`));
    return found ? found[1] + path.slice(found[0].length) : path;
  };
  const text = (container: Container, written: string): string => {
    const own = (port: string): number | undefined => ports.get(`${container.name}:${port}`);
    const whole = own(written);
    if (whole !== undefined) return String(whole);
    return pathOf(container, written)
      .replace(others, (all, name, port) => {
        const known = ports.get(`${name}:${port}`);
        return known === undefined ? all : `127.0.0.1:${known}`;
      })
      .replace(/(\/\/|127\.0\.0\.1|localhost|0\.0\.0\.0):(\d{2,5})(?!\d)/g, (all, host, port) => {
        const known = own(port);
        return known === undefined ? all : `${host === '//' ? '//127.0.0.1' : host}:${known}`;
      });
  };
  return {
    text,
    port: (name, port) => {
      const known = ports.get(`${name}:${port}`);
      if (known === undefined) throw new Error(`Nothing says that ${name} listens on port ${port}.`);
      return known;
    },
    environment: (container) =>
      Object.fromEntries(Object.entries(container.environment).map(([name, value]) => [name, text(container, value)])),
  };
}

/** `name:port` of every port that is published, or that any container of the file calls another by. */
function portsOf(containers: readonly Container[]): ReadonlySet<string> {
  const found = new Set(containers.flatMap(({ name, ports }) => ports.map(({ target }) => `${name}:${target}`)));
  const all = JSON.stringify(containers.map(({ raw }) => raw));
  for (const { name } of containers)
    for (const [, port] of all.matchAll(new RegExp(`(?<![\\w.-])${name}:(\\d{2,5})(?![\\w.-])`, 'g')))
      found.add(`${name}:${port}`);
  return found;
}
