/** A real browser, driven over the pipe of its own protocol (Chrome DevTools Protocol), so that it needs no driver. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';

/** The program in PATH; null where there is none. */
export const chromiumIn = (): string | null =>
  ['chromium', 'chromium-browser', 'google-chrome'].find((name) => spawnSync(name, ['--version']).status === 0) ?? null;

export type Tab = {
  readonly go: (url: string) => Promise<void>;
  /** The value of an expression of the page, awaited; it has to be JSON. */
  readonly evaluate: <T>(expression: string) => Promise<T>;
  /** A key, as `Tab`, or text as it is typed. */
  readonly press: (key: string) => Promise<void>;
  readonly type: (text: string) => Promise<void>;
  /** Sets the width of the window, in CSS pixels. */
  readonly widen: (width: number) => Promise<void>;
  /** Errors of scripts, of the console and of the content security policy. */
  readonly troubles: readonly string[];
  /** The addresses that were asked for. */
  readonly requests: readonly string[];
  readonly close: () => Promise<void>;
};

type Message = {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
};

/** Opens an empty tab; `folder` is for its profile. */
export async function openTab(program: string, folder: string): Promise<Tab> {
  // It opens a page of ours alone, and root and containers have no sandbox and little shared memory.
  const flags = ['--headless=new', '--disable-gpu', '--no-first-run', '--no-sandbox', '--disable-dev-shm-usage'];
  const child = spawn(program, [...flags, '--remote-debugging-pipe', `--user-data-dir=${folder}`, 'about:blank'], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
  });
  const [to, from] = [child.stdio[3] as Writable, child.stdio[4] as Readable];
  const waiting = new Map<number, { done: (value: never) => void; failed: (error: Error) => void }>();
  const troubles: string[] = [];
  const requests: string[] = [];
  const receive = ({ id, method, params = {}, result, error }: Message): void => {
    const asked = id === undefined ? undefined : waiting.get(id);
    if (asked) {
      waiting.delete(id!);
      if (error) asked.failed(new Error(error.message));
      else asked.done(result as never);
    }
    if (method === 'Runtime.exceptionThrown') troubles.push(JSON.stringify(params.exceptionDetails));
    if (method === 'Log.entryAdded' && (params.entry as { level: string }).level === 'error')
      troubles.push((params.entry as { text: string }).text);
    if (method === 'Network.requestWillBeSent') requests.push((params.request as { url: string }).url);
  };
  let rest = '';
  from.setEncoding('utf8').on('data', (text: string) => {
    const messages = (rest + text).split('\0');
    rest = messages.pop()!;
    for (const message of messages) receive(JSON.parse(message));
  });
  child.once('close', () => {
    for (const { failed } of waiting.values()) failed(new Error('the browser ended'));
  });
  let last = 0;
  let sessionId: string | undefined;
  const ask = <T>(method: string, params: object = {}): Promise<T> =>
    new Promise((done, failed) => {
      waiting.set(++last, { done, failed });
      to.write(`${JSON.stringify({ id: last, method, params, ...(sessionId && { sessionId }) })}\0`);
    });
  const { targetId } = await ask<{ targetId: string }>('Target.createTarget', { url: 'about:blank' });
  ({ sessionId } = await ask<{ sessionId: string }>('Target.attachToTarget', { targetId, flatten: true }));
  for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await ask(`${domain}.enable`);
  return {
    troubles,
    requests,
    go: async (url) => void (await ask('Page.navigate', { url })),
    evaluate: async <T>(expression: string) => {
      const { result, exceptionDetails } = await ask<{ result: { value: T }; exceptionDetails?: unknown }>(
        'Runtime.evaluate',
        { expression, awaitPromise: true, returnByValue: true },
      );
      if (exceptionDetails) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`);
      return result.value;
    },
    press: async (key) => {
      for (const type of ['keyDown', 'keyUp'])
        await ask('Input.dispatchKeyEvent', {
          type,
          key,
          code: key,
          windowsVirtualKeyCode: key === 'Tab' ? 9 : 13,
          text: key === 'Enter' ? '\r' : undefined,
        });
    },
    type: async (text) => void (await ask('Input.insertText', { text })),
    widen: async (width) =>
      void (await ask('Emulation.setDeviceMetricsOverride', {
        width,
        height: 800,
        deviceScaleFactor: 1,
        mobile: false,
      })),
    close: async () => {
      const gone = once(child, 'close');
      child.kill();
      await gone;
    },
  };
}
