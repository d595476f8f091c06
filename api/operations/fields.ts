/** Fields that several operations have, and how the command line writes values that are no plain texts. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type TSchema, Type } from 'typebox';
import { durationText, secondsOf } from './durations.ts';
import { local, position, type Writing, written } from './operation.ts';

export const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()]);

export const named = (description: string) => position(Type.String({ maxLength: 512, description }));

export const reason = Type.String({ minLength: 1, maxLength: 1000, description: 'reason to record' });

/** A checkpoint: its id, or its folder, which has a / or is there as it is written. */
export const checkpoint = (description: string, writing: Writing = { position: true }) =>
  local(Type.String({ minLength: 1, maxLength: 4096, description }), 'or name', {
    value: 'dir',
    ...writing,
    parse: (text) => (existsSync(text) ? resolve(text) : text),
  });

/** Seconds, written `6h`; `flag` is the option. */
export const duration = <S extends TSchema>(flag: string, schema: S) =>
  written(schema, { flag, value: 'time', parse: secondsOf, text: durationText });

/** Numbers by name, each written `name=value`. */
export const pairs = <S extends TSchema>(schema: S) =>
  written(schema, {
    value: 'name=value',
    repeated: true,
    parse: (text) => {
      const [, name, value] = /^(\w+)=(.+)$/.exec(text) ?? [];
      if (name === undefined || !Number.isFinite(Number(value)))
        throw new Error('should be a name and a number, such as tokens=1000');
      return { [name]: Number(value) };
    },
  });

/** What a bucket is opened with. */
export const BUCKET_ACCESS =
  'For S3 it takes AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for anything but AWS, AWS_ENDPOINT_URL.';
